//! Entities: the names that HTML has for characters: those of ASCII and of Latin 1, in the letters that HTML has them in. Those
//! beyond are written as they are, or by their number, by whoever escapes a text.

/// Names and what they stand for.
#[rustfmt::skip]
pub(super) const NAMED: [(&str, char); 156] = [
    ("excl", '!'), ("QUOT", '"'), ("quot", '"'), ("num", '#'), ("dollar", '$'), ("percnt", '%'),
    ("AMP", '&'), ("amp", '&'), ("apos", '\''), ("lpar", '('), ("rpar", ')'), ("ast", '*'),
    ("midast", '*'), ("plus", '+'), ("comma", ','), ("period", '.'), ("sol", '/'), ("colon", ':'),
    ("semi", ';'), ("LT", '<'), ("lt", '<'), ("equals", '='), ("GT", '>'), ("gt", '>'),
    ("quest", '?'), ("commat", '@'), ("lbrack", '['), ("lsqb", '['), ("bsol", '\\'),
    ("rbrack", ']'), ("rsqb", ']'), ("Hat", '^'), ("UnderBar", '_'), ("lowbar", '_'),
    ("DiacriticalGrave", '`'), ("grave", '`'), ("lbrace", '{'), ("lcub", '{'),
    ("VerticalLine", '|'), ("verbar", '|'), ("vert", '|'), ("rbrace", '}'), ("rcub", '}'),
    ("NonBreakingSpace", '\u{a0}'), ("nbsp", '\u{a0}'), ("iexcl", '¡'), ("cent", '¢'),
    ("pound", '£'), ("curren", '¤'), ("yen", '¥'), ("brvbar", '¦'), ("sect", '§'), ("Dot", '¨'),
    ("DoubleDot", '¨'), ("die", '¨'), ("uml", '¨'), ("COPY", '©'), ("copy", '©'), ("ordf", 'ª'),
    ("laquo", '«'), ("not", '¬'), ("shy", '\u{ad}'), ("REG", '®'), ("circledR", '®'),
    ("reg", '®'), ("macr", '¯'), ("strns", '¯'), ("deg", '°'), ("PlusMinus", '±'),
    ("plusmn", '±'), ("pm", '±'), ("sup2", '²'), ("sup3", '³'), ("DiacriticalAcute", '´'),
    ("acute", '´'), ("micro", 'µ'), ("para", '¶'), ("CenterDot", '·'), ("centerdot", '·'),
    ("middot", '·'), ("Cedilla", '¸'), ("cedil", '¸'), ("sup1", '¹'), ("ordm", 'º'),
    ("raquo", '»'), ("frac14", '¼'), ("frac12", '½'), ("half", '½'), ("frac34", '¾'),
    ("iquest", '¿'), ("Agrave", 'À'), ("Aacute", 'Á'), ("Acirc", 'Â'), ("Atilde", 'Ã'),
    ("Auml", 'Ä'), ("Aring", 'Å'), ("angst", 'Å'), ("AElig", 'Æ'), ("Ccedil", 'Ç'),
    ("Egrave", 'È'), ("Eacute", 'É'), ("Ecirc", 'Ê'), ("Euml", 'Ë'), ("Igrave", 'Ì'),
    ("Iacute", 'Í'), ("Icirc", 'Î'), ("Iuml", 'Ï'), ("ETH", 'Ð'), ("Ntilde", 'Ñ'),
    ("Ograve", 'Ò'), ("Oacute", 'Ó'), ("Ocirc", 'Ô'), ("Otilde", 'Õ'), ("Ouml", 'Ö'),
    ("times", '×'), ("Oslash", 'Ø'), ("Ugrave", 'Ù'), ("Uacute", 'Ú'), ("Ucirc", 'Û'),
    ("Uuml", 'Ü'), ("Yacute", 'Ý'), ("THORN", 'Þ'), ("szlig", 'ß'), ("agrave", 'à'),
    ("aacute", 'á'), ("acirc", 'â'), ("atilde", 'ã'), ("auml", 'ä'), ("aring", 'å'),
    ("aelig", 'æ'), ("ccedil", 'ç'), ("egrave", 'è'), ("eacute", 'é'), ("ecirc", 'ê'),
    ("euml", 'ë'), ("igrave", 'ì'), ("iacute", 'í'), ("icirc", 'î'), ("iuml", 'ï'), ("eth", 'ð'),
    ("ntilde", 'ñ'), ("ograve", 'ò'), ("oacute", 'ó'), ("ocirc", 'ô'), ("otilde", 'õ'),
    ("ouml", 'ö'), ("div", '÷'), ("divide", '÷'), ("oslash", 'ø'), ("ugrave", 'ù'),
    ("uacute", 'ú'), ("ucirc", 'û'), ("uuml", 'ü'), ("yacute", 'ý'), ("thorn", 'þ'),
    ("yuml", 'ÿ'),
];
