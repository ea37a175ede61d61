// Play: what people do at the console, one scene a run: `node play.mjs SCENE`.
//
// `tests/it/console/mod.rs` plays every scene; the pictures that scenes take are for people to look at.

import assert from "node:assert/strict";
import { Browser, Server, accessible, say, shoot, startRun } from "./stage.mjs";
import { walks } from "./walk.mjs";

const scenes = {
  ...walks,

  async a_request_appears_is_answered_and_the_run_goes_on({ server, browser }) {
    const [reader, starter] = [await browser.person(server), await browser.person(server)];
    await reader.goto(`${server.url}/console`);
    await reader.getByText("Nothing waits for you.", { exact: true }).first().waitFor();
    const run = await startRun(starter, server, "approve_and_send", say("Tell the team that the release is out."));
    await starter.getByText("Waiting", { exact: true }).waitFor();
    assert.equal(await starter.locator(".graph .asks-now").count(), 1, "where it waits is marked");
    assert.match(await starter.locator(".waterfall .wait").innerText(), /so far/);
    assert.match(await starter.locator(".why").innerText(), /^It waits for a person, asked .*: Send this message\?/);

    // Without a reload: the same document shows it.
    await reader.evaluate(() => { window.stillHere = true; });
    await reader.getByRole("link", { name: "Send this message?" }).waitFor();
    assert.equal(await reader.evaluate(() => window.stillHere), true);
    assert.match(await reader.title(), /^\(1\) Inbox/);
    // Whoever cannot see it arrive hears it.
    await reader.locator("#announce[role=status]", { hasText: "One request waits." }).waitFor({ state: "attached" });
    await reader.getByRole("link", { name: "Send this message?" }).click();
    await reader.getByText("where the tool send is called").waitFor();
    await reader.getByLabel("Note").fill("Looks good.");
    await reader.getByRole("button", { name: "Approve" }).click();
    await reader.getByText("You answered this").waitFor();

    // The run's page, open elsewhere all the while, has gone on by itself.
    await starter.getByText("Completed", { exact: true }).waitFor();
    await starter.locator(".output").getByText("Sent: Tell the team that the release is out.").waitFor();
    await starter.getByText("Looks good.").first().waitFor();
    assert.ok(starter.url().endsWith(run));
    assert.equal(await starter.locator(".graph .asks-now").count(), 0);
    assert.ok(await starter.locator(".graph .been").count() >= 2, "where it has been is marked");
    assert.match(await starter.locator(".waterfall .wait").innerText(), /waiting · /);

    // The stream of a run that is over says so, and ends: no browser comes back to it.
    const told = await (await fetch(`${server.url}/console/runs/${run}/live?after=2`)).text();
    assert.deepEqual(told.match(/event: \w+/g), ["event: hello", "event: changed", "event: over"]);
    await shoot(starter, "run-completed", { fullPage: true });
  },

  async a_wrong_value_is_refused_with_the_reason_beside_the_field({ server, browser }) {
    const page = await browser.person(server);
    await startRun(page, server, "booking", fillBooking);
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByLabel("In whose name").fill("Ada Lovelace");
    await page.getByLabel("Guests").fill("99");
    await page.getByRole("radio", { name: "suite" }).check();
    await page.getByLabel("late checkout").check();
    await page.getByLabel("Wishes 1").fill("A quiet room");
    await page.getByLabel("Most per night").fill("much");
    await page.getByRole("group", { name: "Breakfast" }).getByText("Yes").click();
    // The deadline counts down while the form is being filled in.
    const first = await page.locator("time.deadline").first().innerText();
    assert.match(first, /^due in 59 min/);
    await page.waitForFunction((first) => document.querySelector("time.deadline").textContent !== first, first);
    await page.getByRole("button", { name: "Send the answer" }).click();
    const guests = page.getByLabel("Guests");
    await page.getByText("At most 12.").waitFor();
    assert.equal(await guests.getAttribute("aria-invalid"), "true");
    assert.match(await described(page, guests), /At most 12\./);
    assert.match(await described(page, page.getByLabel("Day of arrival")), /This is needed\./);
    assert.match(await described(page, page.getByLabel("Most per night")), /Expected a number\./);
    await accessible(page, "a refused form");
    await shoot(page, "request-refused", { fullPage: true });

    // What was right is still there.
    assert.equal(await page.getByLabel("In whose name").inputValue(), "Ada Lovelace");
    assert.ok(await page.getByLabel("late checkout").isChecked());
    assert.equal(await page.getByLabel("Wishes 1").inputValue(), "A quiet room");
    await guests.fill("2");
    await page.getByLabel("Most per night").fill("120.50");
    await page.getByLabel("Email").fill("ada@example.com");
    await page.getByLabel("Day of arrival").fill("2027-03-01");
    await page.getByRole("button", { name: "One more place" }).click();
    await page.getByLabel("Wishes 2").fill("A view");
    assert.equal(await page.getByLabel("Guests").inputValue(), "2");
    await page.getByRole("button", { name: "Send the answer" }).click();
    await page.getByText("You answered this").waitFor();
    const answer = await page.locator(".closed").innerText();
    for (const part of ["Ada Lovelace", "2027-03-01", "suite", "late checkout", "A view", "120.5", "true", "ada@example.com"]) assert.ok(answer.includes(part), `${part}: ${answer}`);
  },

  async the_other_form_closes_and_says_who_answered({ server, browser, keys }) {
    const [ada, bob] = [await browser.person(server), await browser.person(server)];
    await signIn(ada, server, keys.ada);
    await signIn(bob, server, keys.bob);
    await startRun(ada, server, "shared_approval", say("Tell Bob."));
    await ada.getByRole("link", { name: "Answer it" }).click();
    await bob.goto(`${server.url}/console/inbox`);
    await bob.getByRole("link", { name: "Send this message?" }).click();
    await bob.getByLabel("Note").waitFor();
    await ada.getByLabel("Note").fill("I am still thinking");
    const stale = await formOf(ada);
    await bob.getByRole("button", { name: "Reject" }).click();
    await bob.getByText("You answered this").waitFor();

    await ada.getByText("bob answered this").waitFor();
    assert.equal(await ada.getByRole("button", { name: "Approve" }).count(), 0, "the form is gone");
    // A form that was on its way is told the same, and changes nothing.
    const pass = (await ada.context().cookies(`${server.url}/console`)).find((one) => one.name === "holdpoint_console");
    const late = await post(server, stale.action, { ...stale.fields, decision: "approve" }, { cookie: `${pass.name}=${pass.value}` });
    assert.equal(late.status, 409);
    assert.match(late.text, /came too late and was not taken[^]*<strong>bob<\/strong> answered this/);
    await shoot(ada, "request-closed-elsewhere");
  },

  async a_page_comes_back_by_itself_after_the_server_was_killed({ server, browser, keys }) {
    const [page, inbox] = [await browser.person(server), await browser.person(server)];
    await signIn(page, server, keys.ada);
    await signIn(inbox, server, keys.bob);
    await startRun(page, server, "event_planning", say("Plan a party for 30 people"));
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Pier 66" }).waitFor();
    await inbox.getByRole("link", { name: "Which venue do you prefer?" }).waitFor();
    await server.kill();
    await page.getByText("The server does not answer.").waitFor();
    await inbox.getByText("The server does not answer.").waitFor();
    await server.start();
    await page.getByText("The server does not answer.").waitFor({ state: "hidden" });
    await inbox.getByText("The server does not answer.").waitFor({ state: "hidden" });

    // Nobody has to sign in again, and the form still stands.
    await page.getByRole("button", { name: "Pier 66" }).click();
    await page.getByText("You answered this").waitFor();
    await inbox.getByRole("link", { name: "What is the total budget?" }).waitFor();
  },

  async everything_can_be_done_with_the_keyboard_alone({ server, browser }) {
    const page = await browser.person(server);
    await page.goto(`${server.url}/console/workflows/approve_and_send`);
    await page.keyboard.press("Tab");
    assert.equal(await focused(page), "Skip to the content");
    await page.keyboard.press("Enter");
    await tabTo(page, "What is it about?");
    await page.keyboard.type("Tell everybody.");
    await tabTo(page, "Start");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\/run_/);
    await startRun(page, server, "refund", say("My kettle arrived broken."));

    await page.goto(`${server.url}/console/inbox`);
    await tabTo(page, "May clerk call pay_back?");
    await page.keyboard.press("ArrowDown");
    assert.match(await focused(page), /^Send this message/);
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/requests\//);
    await tabTo(page, "Note");
    await page.keyboard.type("By keyboard");
    await tabTo(page, "Approve");
    await page.keyboard.press("Space");
    // The next one comes by itself; behind the last there is none.
    await page.getByText("Answered: Send this message? (Approve)").waitFor();
    await page.getByText("If you allow it, exactly this is done").waitFor();
    await tabTo(page, "Deny");
    await page.keyboard.press("Enter");
    await page.getByText("You answered this").waitFor();
  },

  async every_view_fits_a_phone({ server, browser }) {
    const page = await browser.person(server, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
    const runs = await cast(page, server);
    runs.plan = await startRun(page, server, "research_task", say("Measure the dust."));
    for (const [name, path] of await views(page, server, runs)) {
      await page.goto(`${server.url}/console/${path}`);
      const [wide, fits] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(wide <= fits, `${name}: ${wide} is wider than ${fits}`);
      const small = await page.evaluate(() => [...document.querySelectorAll("main button, main a.button, main .choice")]
        .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 34).map((one) => one.textContent));
      assert.deepEqual(small, [], `${name}: too small for a finger`);
    }
    await page.goto(`${server.url}/console/inbox`);
    await shoot(page, "phone-inbox");
    await page.getByRole("link", { name: "Which venue do you prefer?" }).tap();
    await page.getByRole("button", { name: "Garden House" }).waitFor();
    await shoot(page, "phone-request", { fullPage: true });
    await page.getByRole("button", { name: "Garden House" }).tap();
    await page.getByText("Answered: Which venue do you prefer?").waitFor();
  },

  async an_edited_call_is_reviewed_and_then_done_as_edited({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "refund", say("My kettle arrived broken."));
    await page.getByRole("link", { name: "Answer it" }).click();
    const deed = page.locator(".deed");
    await deed.getByText("pay_back", { exact: true }).waitFor();
    const shown = await deed.innerText();
    for (const part of ["\\u{200b}", "\\u{202e}", "<script>alert(1)</script>", "49.5"]) assert.ok(shown.includes(part), `${part}: ${shown}`);
    assert.doesNotMatch(shown, /[\u200b\u202e\u202c]/, "nothing hides");
    await shoot(page, "request-tool", { fullPage: true });

    await page.getByRole("link", { name: "Edit, then allow" }).click();
    await page.getByText("There are characters in it that cannot be seen").waitFor();
    await page.getByRole("button", { name: "Review the changes" }).click();
    await page.getByText("Nothing was changed.").waitFor();
    await page.getByLabel("Amount").fill("5000");
    await page.getByRole("button", { name: "Review the changes" }).click();
    await page.getByText("At most 500.").waitFor();
    await page.getByLabel("Amount").fill("12.25");
    await page.getByLabel("Reason").fill("Broken on arrival");
    await accessible(page, "the editor");
    await shoot(page, "request-edit", { fullPage: true });
    await page.getByRole("button", { name: "Review the changes" }).click();
    const diff = page.getByRole("table");
    await diff.waitFor();
    assert.deepEqual(await diff.getByRole("rowheader").allInnerTexts(), ["amount", "reason"]);
    await accessible(page, "the review");
    await shoot(page, "request-review", { fullPage: true });
    await page.getByRole("button", { name: "Edit more" }).click();
    assert.equal(await page.getByLabel("Amount").inputValue(), "12.25");
    await page.getByRole("button", { name: "Review the changes" }).click();
    await page.getByRole("button", { name: "Allow it with these changes" }).click();
    await page.getByText("You answered this").waitFor();

    await page.goto(`${server.url}/console/runs/${run}`);
    await page.getByText("Completed", { exact: true }).waitFor();
    await page.locator("details.tool > summary").click();
    const call = await page.locator("details.tool").innerText();
    assert.match(call, /"amount": 12\.25/);
    assert.match(call, /"city": "London"/, "what was not edited is as it was");
    assert.match(call, /paid back/);
  },

  async a_draft_is_edited_and_its_changes_are_seen_word_by_word({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "letter", say("Bill Ada."));
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("link", { name: "Edit, then approve" }).click();
    const field = page.getByLabel("Subject");
    assert.equal(await field.inputValue(), "Dear Ada,\n\nthe bill is 10 euros, due on Monday.\n\nYours, the shop");
    await page.getByRole("button", { name: "Review the changes" }).click();
    await page.getByText("Nothing was changed.").waitFor();
    await field.fill("");
    await page.getByRole("button", { name: "Review the changes" }).click();
    await page.locator("[aria-invalid=true]").first().waitFor();
    const own = "Dear Ada,\n\nthe bill is 12 euros, due on Friday.\n\nYours, the shop";
    await field.fill(own);
    await page.getByRole("button", { name: "Review the changes" }).click();
    const changes = page.getByRole("region", { name: "Changes" });
    await changes.waitFor();
    assert.deepEqual(await changes.locator("del").allInnerTexts(), ["10", "Monday"]);
    assert.deepEqual(await changes.locator("ins").allInnerTexts(), ["12", "Friday"]);
    await accessible(page, "the changes of a text");
    await shoot(page, "request-edit-words", { fullPage: true });
    await page.getByRole("button", { name: "Approve this version" }).click();
    await page.getByText("You answered this").waitFor();
    await page.goto(`${server.url}/console/runs/${run}`);
    await page.getByText("Completed", { exact: true }).waitFor();
    await page.locator("details.tool > summary").first().click();
    assert.ok((await page.locator("details.tool").innerText()).includes("12 euros, due on Friday"));
  },

  async marks_are_laid_out_and_nothing_hides_in_them({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "marked", say("Offer Ada tea and cake."));
    await page.getByRole("link", { name: "Answer it" }).click();
    const subject = page.getByRole("region", { name: "What you decide" });
    await subject.locator("strong", { hasText: "deliver on Monday" }).waitFor();
    assert.equal(await subject.locator("strong", { hasText: "deliver on Monday" }).count(), 1);
    assert.equal(await subject.getByRole("table").count(), 1);
    assert.equal(await subject.locator("pre code").innerText(), "curl -X POST https://shop.example/orders");
    // Where a link leads stands beside it; an image is told of; comments, tags and marks that hide are text.
    const shown = await subject.innerText();
    for (const part of ["your bank (https://evil.example/login)", "image: logo (https://evil.example/pixel.png)", "<!-- approve this -->", "<b>bold?</b>", "\\u{202e}"]) assert.ok(shown.includes(part), `${part}: ${shown}`);
    assert.equal(await page.locator("main img").count(), 0);
    await subject.getByText("Show source").click();
    const source = await subject.locator("details.source pre").innerText();
    for (const part of ["# Offer for Ada", "**deliver on Monday**", "[your bank](https://evil.example/login)", "|------|------:|", "pay\\u{202e}001"]) assert.ok(source.includes(part), `${part}: ${source}`);
    await accessible(page, "a text with marks");
    await shoot(page, "request-markdown", { fullPage: true });
    // What an agent said as JSON is a tree whose parts fold.
    await page.goto(`${server.url}/console/runs/${run}`);
    const tree = page.locator(".tree").first();
    await tree.getByText("1 member").first().waitFor();
    assert.ok((await tree.innerText()).includes('"total": 120'));
    await accessible(page, "a run with a tree");
  },

  async a_huge_message_and_a_bomb_of_marks_do_not_hang_a_page({ server, browser }) {
    const page = await browser.person(server);
    const line = "All work and no play makes **Jack** a [dull](https://boy.example) boy. ";
    const body = (words) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: "huge", input: words }) });
    // Five megabytes are refused at the door, and by name; a million characters are as much as anybody may say.
    const refused = await fetch(`${server.url}/v1/responses`, body(line.repeat(73_000)));
    assert.deepEqual([refused.status, (await refused.json()).error.code], [413, "field.too_large"]);
    for (const [name, words] of [["huge", `${line.repeat(14_500)}the end`], ["bomb", `${"> ".repeat(9_000)}${"[".repeat(9_000)}${"*a **b _c ".repeat(2_000)}the end`]]) {
      const begun = await fetch(`${server.url}/v1/responses`, body(words));
      assert.equal(begun.status, 200, `${name}: ${await begun.text()}`);
      const from = Date.now();
      await page.goto(`${server.url}/console/inbox`);
      await page.getByRole("link", { name: "Keep it?" }).first().click();
      const subject = page.getByRole("region", { name: "What you decide" });
      await subject.getByText("the end").first().waitFor({ state: "attached" });
      // It can still be worked with: the end is come to, and then it is approved.
      await page.waitForFunction(() => {
        const box = document.querySelector("[data-read-end] input");
        if (!box.checked) box.scrollIntoView({ block: "center" });
        return box.checked;
      }, null, { polling: 200 });
      await page.getByRole("button", { name: "Reject" }).click();
      await page.getByText("You answered this").waitFor();
      await page.getByRole("link", { name: "See the run" }).click();
      await page.getByText("Failed", { exact: true }).first().waitFor();
      console.log(`${name}: ${Date.now() - from} ms`);
    }
  },

  async a_long_run_opens_where_it_is_now({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "long", say("Report."));
    await page.getByText("Waiting", { exact: true }).waitFor();
    const from = Date.now();
    await page.goto(`${server.url}/console/runs/${run}`);
    await page.getByRole("link", { name: "Answer it" }).waitFor();
    const took = Date.now() - from;
    // The figure is docs/console.md's to tell; a machine that does much else is no reason to fail.
    console.log(`a run of three hundred steps opens in ${took} ms`);
    // The newest is in view, under a summary that stays; what is long past is folded.
    await page.waitForFunction(() => window.scrollY > 200, null, { polling: 50 });
    assert.ok(await page.getByRole("link", { name: "Answer it" }).isVisible());
    const top = await page.locator(".summary").evaluate((one) => one.getBoundingClientRect().top);
    assert.ok(top >= 0 && top < 120, `the summary is on the screen: ${top}`);
    const folded = page.locator("details.stretch");
    assert.ok(await folded.count() >= 5, `${await folded.count()} stretches`);
    assert.match(await folded.first().locator("summary").first().innerText(), /^40 entries/);
    await shoot(page, "run-long");
    // It scrolls as a page does, all the way up.
    for (let turns = 0; turns < 200 && await page.evaluate(() => window.scrollY) > 0; turns += 1) await page.mouse.wheel(0, -800);
    await page.waitForFunction(() => window.scrollY === 0, null, { polling: 50 });
    await page.getByRole("link", { name: "Jump to now" }).click();
    await page.waitForFunction(() => document.getElementById("now").getBoundingClientRect().bottom <= innerHeight + 2, null, { polling: 50 });
    // Which branch, item and round something belongs to is said beside it, and what failed has its own colour.
    await folded.first().locator("summary").first().click();
    const early = await folded.first().innerText();
    for (const part of ["check · line 2, Dinner", "both · north", "both · south"]) assert.ok(early.includes(part), `${part}: ${early}`);
    assert.ok((await page.locator(".feed[data-long]").innerText()).includes("report · round 100"));
    assert.equal(await page.locator("div.failed", { hasText: "ring failed" }).count(), 1);
    assert.ok(await page.locator(".graph .failed-there").count() >= 1);
    await accessible(page, "a long run");
    await shoot(page, "run-long-unfolded", { fullPage: true });
    // A conversation is known by its first words.
    await page.goto(`${server.url}/console/sessions`);
    await page.getByRole("link", { name: "Report." }).waitFor();
    await shoot(page, "sessions");
  },

  async many_requests_are_worked_through_one_after_the_other({ server, browser }) {
    const page = await browser.person(server);
    for (const name of ["Ada", "Bob", "Cleo", "Dan", "Eve"]) await begin(server, "letter", `Bill ${name}.`);
    await begin(server, "refund", "My kettle arrived broken.");
    // With keys alone, and within the list that was filtered.
    await page.goto(`${server.url}/console/inbox?workflow=letter`);
    await page.getByText("Send this letter?").first().waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).getByText("the next and the previous request").waitFor();
    await accessible(page, "the list of keys");
    await page.keyboard.press("Escape");
    // While the list of keys is still closing, letters are its own.
    await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
    for (const [key, place] of [["j", 0], ["j", 1], ["k", 0]]) {
      await page.keyboard.press(key);
      await page.waitForFunction((place) => [...document.querySelectorAll("[data-arrows] a.title")].indexOf(document.activeElement) === place, place);
    }
    await page.keyboard.press("Enter");
    const first = await requestOf(page);
    await page.getByRole("link", { name: "Next", exact: true }).waitFor();
    await page.keyboard.press("j");
    await page.waitForURL((url) => !url.href.includes(first));
    const second = await requestOf(page);
    await page.keyboard.press("k");
    await page.waitForURL((url) => url.href.includes(first));
    // A letter leads to the yes, and takes nothing; Enter does, and the next one comes by itself.
    await page.keyboard.press("a");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Approve");
    assert.equal(await requestOf(page), first);
    await page.keyboard.press("Enter");
    await page.getByText("Answered: Send this letter? (Approve)").waitFor();
    assert.equal(await requestOf(page), second);
    assert.match(page.url(), /list=workflow%3Dletter/);
    await shoot(page, "request-next", { fullPage: true });
    await page.keyboard.press("r");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Reject");
    await page.keyboard.press("e");
    await page.getByText("Your own version of what you decide").waitFor();
    // A note is typed, and letters in it are letters.
    await page.goBack();
    await page.getByLabel("Note").fill("");
    await page.getByLabel("Note").press("a");
    assert.equal(await page.getByLabel("Note").inputValue(), "a");
    // Put off, it leaves the list, in this browser alone.
    await page.getByText("Not now, or not you?").click();
    await accessible(page, "a request in a list");
    await page.getByRole("button", { name: "Later: in an hour" }).click();
    await page.waitForURL((url) => !url.href.includes(second));
    const third = await requestOf(page);
    await page.keyboard.press("j");
    await page.waitForURL((url) => !url.href.includes(third));
    await page.getByRole("link", { name: "Inbox" }).last().click();
    await page.waitForURL(/inbox\?workflow=letter/);
    await page.getByText("1 request put off.").waitFor();
    assert.equal(await page.locator(".card").count(), 3);
    const other = await browser.person(server);
    await other.goto(`${server.url}/console/inbox?workflow=letter`);
    await other.getByText("Send this letter?").first().waitFor();
    assert.equal(await other.locator(".card").count(), 4, "elsewhere it is where it was");
    assert.equal(await other.getByRole("checkbox").count(), 0, "nothing was opened there");
    // What was opened, and that alone, is answered together.
    assert.equal(await page.getByRole("checkbox").count(), 2);
    for (const box of await page.getByRole("checkbox").all()) await box.check();
    await accessible(page, "an inbox with choices");
    await shoot(page, "inbox-together");
    await page.getByRole("button", { name: "Answer the chosen ones together" }).click();
    await page.getByText("2 requests, one answer").waitFor();
    await page.getByLabel("Note").fill("as always");
    await accessible(page, "several at once");
    await shoot(page, "together", { fullPage: true });
    await page.getByRole("button", { name: "Approve all 2" }).click();
    await page.getByText("2 of 2 requests answered: Approve").waitFor();
    await page.getByRole("link", { name: "To the inbox" }).click();
    await page.getByText("1 request put off.").waitFor();
  },

  async half_typed_words_outlive_anothers_answer({ server, browser, keys }) {
    const [ada, bob] = [await browser.person(server), await browser.person(server)];
    await signIn(ada, server, keys.ada);
    await signIn(bob, server, keys.bob);
    await startRun(ada, server, "shared_approval", say("Tell Bob."));
    await ada.getByRole("link", { name: "Answer it" }).click();
    await ada.getByLabel("Note").fill("Too dear: ask for ten, and say why.");
    await bob.goto(`${server.url}/console/inbox`);
    await bob.getByRole("link", { name: "Send this message?" }).click();
    await bob.getByRole("button", { name: "Reject" }).click();
    await bob.getByText("You answered this").waitFor();
    await ada.getByText("bob answered this").waitFor();
    await ada.getByText("What you had typed was not sent:").waitFor();
    assert.equal(await ada.locator("#typed textarea").inputValue(), "Too dear: ask for ten, and say why.");
    await accessible(ada, "what was typed");
    await shoot(ada, "request-typed");
  },

  async an_open_page_follows_an_escalation({ server, browser, keys }) {
    const [ada, bob] = [await browser.person(server), await browser.person(server)];
    await signIn(ada, server, keys.ada);
    await signIn(bob, server, keys.bob);
    await startRun(ada, server, "escalated", say("Pay the bill."));
    await ada.getByRole("link", { name: "Answer it" }).click();
    const outlook = ada.getByRole("region", { name: "What it is about" });
    await outlook.getByText(/these are asked as well: bob/).waitFor();
    await outlook.getByText("If you reject, none of it happens: the run ends as failed").waitFor();
    await ada.evaluate(() => { window.stillHere = true; });
    await ada.getByLabel("Note").fill("Is it not too dear?");
    // Nobody reloads anything: the page says by itself who is asked by now, who was before, and what silence means.
    await ada.getByText("before, of ada alone, who did not answer in time").waitFor();
    await outlook.getByText("that is a no.").waitFor();
    assert.equal(await ada.evaluate(() => window.stillHere), true);
    assert.equal(await ada.getByLabel("Note").inputValue(), "Is it not too dear?", "what was half typed is there");
    await accessible(ada, "a request that was escalated");
    await shoot(ada, "request-escalated", { fullPage: true });
    await bob.goto(`${server.url}/console/inbox`);
    await bob.getByRole("link", { name: "Pay this bill?" }).click();
    await bob.getByRole("button", { name: "Reject" }).click();
    await bob.getByText("You answered this").waitFor();
    await ada.getByText("bob answered this").waitFor();
    await ada.getByRole("link", { name: "See the run" }).click();
    await ada.getByText("Failed", { exact: true }).first().waitFor();
    await ada.getByText("Nobody answered in time; now asked of ada, bob").first().waitFor();
  },

  async a_request_is_claimed_and_handed_over({ server, browser, keys }) {
    const [ada, bob] = [await browser.person(server), await browser.person(server)];
    await signIn(ada, server, keys.ada);
    await signIn(bob, server, keys.bob);
    await startRun(ada, server, "shared_approval", say("Tell Bob."));
    await ada.getByRole("link", { name: "Answer it" }).click();
    await bob.goto(`${server.url}/console/inbox`);
    await bob.getByRole("link", { name: "Send this message?" }).click();
    await ada.getByText("Not now, or not you?").click();
    await accessible(ada, "claim and hand over");
    await ada.getByRole("button", { name: "Claim it for ten minutes" }).click();
    await ada.getByText("Claimed by ada until").waitFor();
    // Whoever has it open hears of it, and could decide all the same.
    await bob.getByText("Claimed by ada until").waitFor();
    assert.equal(await bob.getByRole("button", { name: "Approve" }).count(), 1);
    await ada.getByText("Not now, or not you?").click();
    await ada.getByRole("button", { name: "Let it go" }).click();
    await bob.getByText("Claimed by ada until").waitFor({ state: "hidden" });
    // A place goes to somebody who is not asked already.
    await ada.getByText("Not now, or not you?").click();
    await ada.getByLabel("To whom").fill("eve");
    await ada.getByRole("button", { name: "Hand my place over" }).click();
    await ada.getByText("eve speaks in the place of ada until").waitFor();
    await bob.getByText("eve speaks in the place of ada until").waitFor();
    const eve = await browser.person(server);
    await signIn(eve, server, keys.eve);
    await eve.getByRole("link", { name: "Send this message?" }).click();
    await eve.getByRole("button", { name: "Approve" }).click();
    await eve.getByText("You answered this").waitFor();
    await bob.getByText("eve answered this").waitFor();
  },

  async a_desktop_is_told_of_a_new_request({ server, browser }) {
    const page = await browser.person(server);
    await page.addInitScript(() => {
      window.notes = [];
      window.Notification = class { static permission = "granted"; static async requestPermission() { return "granted"; } constructor(title, { body }) { window.notes.push(`${title}: ${body}`); } };
    });
    await page.goto(`${server.url}/console/inbox`);
    await page.getByRole("button", { name: "Tell me on this desktop" }).click();
    await page.getByRole("button", { name: "Stop telling me on this desktop" }).waitFor();
    await page.evaluate(() => {
      Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await begin(server, "letter", "Bill Ada.");
    await page.waitForFunction(() => window.notes.length === 1, null, { polling: 100 });
    assert.deepEqual(await page.evaluate(() => window.notes), ["Holdpoint: a request waits: letter: Send this letter?"]);
    await begin(server, "letter", "Bill Bob.");
    await page.waitForFunction(() => window.notes.length === 2, null, { polling: 100 });
  },

  async what_others_write_is_never_markup({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "hostile", say("<script>window.hacked=1</script><h1>Hi</h1>"));
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByText("<iframe src=//evil.example>").waitFor();
    for (const path of [new URL(page.url()).pathname, "/console/inbox", "/console/runs", `/console/runs/${run}`, "/console/workflows", "/console/workflows/hostile", "/console/audit"]) {
      await page.goto(`${server.url}${path}`);
      assert.equal(await page.evaluate(() => window.hacked), undefined, path);
      assert.equal(await page.locator("iframe, img[onerror], svg[onload], main b[onclick], main script").count(), 0, path);
    }
    await page.goto(`${server.url}/console/inbox`);
    await page.locator("a.title").first().click();
    assert.match(await page.locator("h1").innerText(), /\\u\{202e\}yaw\\u\{202c\}/);
    const policy = (await page.reload()).headers()["content-security-policy"];
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    await page.locator("button.option").first().click();
    await page.getByText("You answered this").waitFor();
    await page.goto(`${server.url}/console/runs/${run}`);
    await page.getByText("<img src=x onerror").first().waitFor();
    await page.locator("details.tool > summary").click();
    const call = await page.locator("details.tool").innerText();
    assert.ok(call.includes("</pre><script>window.hacked=1</script>") && call.includes("<img src=x onerror=window.hacked=1>"), call);
    assert.equal(await page.locator("main img, main script, details.tool u").count(), 0);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  },

  async a_form_that_comes_too_late_changes_nothing({ server, browser }) {
    const page = await browser.person(server);
    await startRun(page, server, "hurried", say("Quick"));
    await page.getByRole("link", { name: "Answer it" }).click();
    const form = await formOf(page);
    await page.getByText("Nobody answered in time").waitFor();
    assert.equal(await page.getByRole("button", { name: "Approve" }).count(), 0);
    const late = await post(server, form.action, { ...form.fields, decision: "approve" });
    assert.equal(late.status, 409);
    assert.match(late.text, /came too late and was not taken/);

    await startRun(page, server, "approve_and_send", say("Stop me."));
    const run = page.url();
    await page.getByRole("link", { name: "Answer it" }).click();
    const other = await formOf(page);
    const stale = await post(server, other.action, { ...other.fields, digest: "0".repeat(64), decision: "approve" });
    assert.equal(stale.status, 409);
    assert.match(stale.text, /not what you were shown/);
    const blind = await post(server, other.action, { decision: "approve" });
    assert.equal(blind.status, 409, "a form that does not say what it showed is refused");
    await page.goto(run);
    await page.getByText("Cancel this run").click();
    await page.getByLabel("Why").fill("No longer wanted");
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("No longer wanted").first().waitFor();
    const gone = await post(server, other.action, { ...other.fields, decision: "approve" });
    assert.equal(gone.status, 409);
    assert.match(gone.text, /Its run was over/);
  },

  async a_long_subject_is_approved_once_its_end_was_on_the_screen({ server, browser }) {
    const long = "A clause that somebody should read before it is sent. ".repeat(200);
    const page = await browser.person(server);
    await startRun(page, server, "approve_and_send", say(long));
    await page.getByRole("link", { name: "Answer it" }).click();
    const box = page.getByLabel("I have read this to its end");
    assert.equal(await box.isChecked(), false, "its end is below the screen");
    const form = await formOf(page);
    const early = await post(server, form.action, { ...form.fields, decision: "approve" });
    assert.equal(early.status, 422);
    assert.match(early.text, /Read it to its end/);
    // By the keyboard alone: whoever gets to the box has its end before them.
    await box.focus();
    await page.waitForFunction(() => document.querySelector("[data-read-end] input").checked);
    await shoot(page, "request-long");
    await page.getByRole("button", { name: "Approve" }).press("Enter");
    await page.getByText("You answered this").waitFor();

    const plain = await browser.person(server, { javaScriptEnabled: false });
    await startRun(plain, server, "approve_and_send", say(long));
    await plain.getByRole("link", { name: "Answer it" }).click();
    await plain.getByRole("button", { name: "Approve" }).click();
    await plain.getByText("Read it to its end and tick the box there").waitFor();
    await plain.getByLabel("I have read this to its end").check();
    await plain.getByRole("button", { name: "Approve" }).click();
    await plain.getByText("You answered this").waitFor();
  },

  async everything_works_with_scripts_off({ server, browser }) {
    const page = await browser.person(server, { javaScriptEnabled: false });
    const run = await startRun(page, server, "multi_tier_support", say("I need help with order 12345. I want a replacement."));
    for (const words of ["The item arrived damaged.", "Will I be charged?", "Thank you!"]) {
      await page.goto(`${server.url}/console/runs/${run}`);
      await page.getByRole("link", { name: "Answer it" }).click();
      await page.getByLabel("Your message").fill(words);
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("You answered this").waitFor();
    }
    await page.goto(`${server.url}/console/runs/${run}`);
    await page.getByText("Completed", { exact: true }).waitFor();
    assert.equal(await page.locator("div.answered").count(), 3);
  },

  async no_view_breaks_a_rule_of_accessibility({ server, browser }) {
    const page = await browser.person(server);
    await page.goto(`${server.url}/console/inbox`);
    await accessible(page, "an empty inbox");
    const runs = await cast(page, server);
    runs.plan = await startRun(page, server, "research_task", say("Measure the dust."));
    for (const [name, path] of await views(page, server, runs)) {
      await page.goto(`${server.url}/console/${path}`);
      await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; });
      await accessible(page, name);
      await page.goto(`${server.url}/console/${path}`);
      await shoot(page, name, { fullPage: true });
      await page.emulateMedia({ colorScheme: "dark" });
      await shoot(page, `${name}-dark`, { fullPage: true });
      await page.emulateMedia({ colorScheme: "light" });
    }
    await page.goto(`${server.url}/console/nowhere`);
    await page.getByText("There is nothing here").waitFor();
    await accessible(page, "nothing");
  },

  async signing_in_leaves_no_key_behind({ server, browser, keys }) {
    const page = await browser.person(server);
    await page.goto(`${server.url}/console/runs?status=FAILED`);
    await accessible(page, "sign-in");
    await shoot(page, "sign-in");
    await page.getByLabel("API key").fill("hp_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("No key is like this one.").waitFor();
    await page.getByLabel("API key").fill(keys.ada);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(/runs\?status=FAILED/);
    const cookie = (await page.context().cookies(`${server.url}/console`)).find((one) => one.name === "holdpoint_console");
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict" && cookie.path === "/console");
    assert.ok(!cookie.value.includes(keys.ada));
    assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);

    // What is Ada's is unknown to Eve, as is what is not there at all.
    await startRun(page, server, "approve_and_send", say("A secret."));
    const run = new URL(page.url()).pathname;
    await page.getByRole("link", { name: "Answer it" }).click();
    const request = new URL(page.url()).pathname;
    const eve = await browser.person(server);
    await signIn(eve, server, keys.eve);
    const told = [];
    for (const path of [run, request, `${request.slice(0, -1)}9`, "/console/runs/run_00000000000000000000000000"]) {
      const response = await eve.goto(`${server.url}${path}`);
      told.push([response.status(), await eve.locator("main").innerText()]);
    }
    for (const one of told) assert.deepEqual(one, told[0]);
    assert.equal(told[0][0], 404);
    const stolen = await formOf(page);
    const evesCookie = (await eve.context().cookies(`${server.url}/console`)).find((one) => one.name === "holdpoint_console");
    const answer = await post(server, stolen.action, { ...stolen.fields, decision: "approve" }, { cookie: `${evesCookie.name}=${evesCookie.value}` });
    assert.equal(answer.status, 404);

    // A form from elsewhere is not taken, whoever's cookie comes with it.
    const adas = { cookie: `${cookie.name}=${cookie.value}` };
    for (const headers of [{ origin: "http://evil.example" }, { "sec-fetch-site": "cross-site" }]) {
      const forged = await post(server, stolen.action, { ...stolen.fields, decision: "approve" }, { ...adas, ...headers });
      assert.equal(forged.status, 403);
    }
    // It is refused before all of it is there: whoever still writes then may be hung up on before they read why.
    const pad = "x".repeat(5 << 20);
    const large = await post(server, stolen.action, { ...stolen.fields, decision: "approve", pad }, adas).catch((error) => ({ status: error.cause?.code }));
    assert.ok([413, "EPIPE", "ECONNRESET"].includes(large.status), String(large.status));
    await page.reload();
    await page.getByRole("button", { name: "Approve" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    await page.goto(`${server.url}${run}`);
    await page.getByLabel("API key").waitFor();
  },

  async a_fork_shows_what_would_run_again({ server, browser }) {
    const page = await browser.person(server);
    const run = await startRun(page, server, "approve_and_send", say("Tell Ada."));
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByText("You answered this").waitFor();
    await page.getByRole("link", { name: "See the run" }).click();
    await page.getByText("Failed", { exact: true }).first().waitFor();
    await page.getByText("Fork from a checkpoint").click();
    await page.getByText("Nothing has run since.").waitFor();
    await accessible(page, "forks");
    await page.getByRole("button", { name: "Fork from here" }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(run) && /\/runs\/run_/.test(url.pathname));
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByText("You answered this").waitFor();
    await page.goto(`${server.url}/console/audit`);
    const rows = await page.getByRole("row").allInnerTexts();
    assert.ok(rows.some((row) => row.includes("Reject")) && rows.some((row) => row.includes("Approve")), rows.join("\n"));
  },

  async lists_are_searched_filtered_and_counted({ server, browser }) {
    const page = await browser.person(server);
    const runs = await cast(page, server);
    const cards = page.locator("li.card a.title");
    await page.goto(`${server.url}/console/inbox`);
    assert.equal(await cards.count(), 5);
    await page.getByLabel("Search").fill("LOVELACE");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/q=LOVELACE/);
    assert.deepEqual(await cards.allInnerTexts(), ["May clerk call pay_back?"]);
    await page.goto(`${server.url}/console/inbox?kind=selection`);
    assert.deepEqual(await cards.allInnerTexts(), ["Which venue do you prefer?"]);
    await page.goto(`${server.url}/console/inbox?q=nobody+says+this`);
    await page.getByText("Nothing matches.").waitFor();

    await page.goto(`${server.url}/console/runs`);
    await page.getByRole("link", { name: "5 Waiting" }).click();
    await page.waitForURL(/status=WAITING/);
    assert.equal(await page.locator("tbody tr").count(), 5);
    await page.getByRole("link", { name: "1 Completed" }).waitFor();
    await page.goto(`${server.url}/console/runs?q=${runs.tool.slice(-8)}`);
    assert.equal(await page.locator("tbody tr").count(), 1);
    await page.locator("tbody tr a[href*=sessions]").click();
    await page.getByRole("heading", { name: "Waits for" }).waitFor();
    await page.getByRole("link", { name: "May clerk call pay_back?" }).first().waitFor();
    await page.goto(`${server.url}/console/audit?by=local`);
    assert.equal(await page.locator("tbody tr").count(), 1);
    await page.goto(`${server.url}/console/audit?by=nobody`);
    await page.getByText("No decisions here.").waitFor();
    await page.goto(`${server.url}/console/audit?run=${runs.done}`);
    await page.getByRole("link", { name: "Send this message?" }).waitFor();

    // A run that ends elsewhere is counted without a reload.
    await page.goto(`${server.url}/console/runs`);
    const other = await browser.person(server);
    await other.goto(`${server.url}/console/${await request(other, server, runs.approval)}`);
    await other.getByRole("button", { name: "Approve" }).click();
    await page.getByRole("link", { name: "2 Completed" }).waitFor();
  },

  // How long it takes is `holdpoint bench w4`'s to say; what makes it short is that it shows a page.
  async an_inbox_of_ten_thousand_is_shown_page_by_page({ server, browser }) {
    const page = await browser.person(server);
    await startMany(server, 10_000);
    await page.goto(`${server.url}/console/inbox`);
    assert.equal(await page.locator("li.card").count(), 50);
    assert.match(await page.locator("#badge").innerText(), /^99\+/);
    await page.getByRole("link", { name: "Show more" }).click();
    await page.waitForURL(/after=/);
    assert.equal(await page.locator("li.card").count(), 50);
  },
};

/* ---- what scenes share ---- */

async function fillBooking(page) {
  await page.getByLabel("What is celebrated").fill("Ada's birthday");
  await page.getByLabel("Guests").fill("12");
}

/** A run of every workflow, so that every view has something to show. */
async function cast(page, server) {
  const runs = {};
  runs.done = await startRun(page, server, "approve_and_send", say("Tell the team that the release is out."));
  await page.getByRole("link", { name: "Answer it" }).click();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("You answered this").waitFor();
  runs.approval = await startRun(page, server, "approve_and_send", say("Tell Ada that the order has shipped."));
  runs.selection = await startRun(page, server, "event_planning", say("Plan a party for 30 people"));
  runs.turn = await startRun(page, server, "multi_tier_support", say("I need help with order 12345. I want a replacement and need to know when it will arrive."));
  runs.form = await startRun(page, server, "booking", fillBooking);
  runs.tool = await startRun(page, server, "refund", say("My kettle arrived broken."));
  return runs;
}

/** The page of a run's first question: its id ends in what nobody guesses, so the run's page is asked. */
async function request(page, server, run) {
  await page.goto(`${server.url}/console/runs/${run}`);
  const href = await page.locator(`a[href*="${run.replace("run_", "req_")}-0001"]`).first().getAttribute("href");
  return href.replace("/console/", "");
}

/** Every view, by a name for its picture. */
async function views(page, server, runs) {
  const at = {};
  for (const name of ["approval", "selection", "turn", "form", "tool", "done", "plan"]) {
    at[runs[name]] = await request(page, server, runs[name]);
  }
  const request_ = (run) => at[run];
  return [
    ["inbox", "inbox"],
    ["request-approval", request_(runs.approval)],
    ["request-selection", request_(runs.selection)],
    ["request-turn", request_(runs.turn)],
    ["request-form", request_(runs.form)],
    ["request-tool", request_(runs.tool)],
    ["request-answered", request_(runs.done)],
    ["request-plan", request_(runs.plan)],
    ["request-plan-edit", `${request_(runs.plan)}?edit=modify`],
    ["run-graph", `runs/${runs.plan}`],
    ["run-waiting", `runs/${runs.selection}`],
    ["run-completed", `runs/${runs.done}`],
    ["runs", "runs"],
    ["sessions", "sessions"],
    ["workflows", "workflows"],
    ["workflow", "workflows/booking"],
    ["workflow-handoff", "workflows/multi_tier_support"],
    ["audit", "audit"],
  ];
}

/** Begins a run as a program does. */
async function begin(server, workflow, words) {
  const begun = await fetch(`${server.url}/v1/responses`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: workflow, input: words }) });
  assert.equal(begun.status, 200, await begun.text());
}

/** The request whose page this is. */
async function requestOf(page) {
  await page.waitForURL(/\/console\/requests\/req_/);
  return new URL(page.url()).pathname.split("/").pop();
}

async function signIn(page, server, key) {
  await page.goto(`${server.url}/console/inbox`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
}

/** What a screen reader says beside a field. */
async function described(page, field) {
  const ids = (await field.getAttribute("aria-describedby")) ?? "";
  const texts = await Promise.all(ids.split(" ").map((id) => page.locator(`[id="${id}"]`).innerText()));
  return texts.join(" ");
}

/** What has the focus, by the name that is read out. */
function focused(page) {
  return page.evaluate(() => {
    const one = document.activeElement;
    return (one?.labels?.[0]?.textContent ?? one?.textContent ?? "").trim();
  });
}

/** Presses Tab until that has the focus; a person would give up long before a hundred. */
async function tabTo(page, name) {
  for (let presses = 0; presses < 100; presses += 1) {
    await page.keyboard.press("Tab");
    if ((await focused(page)).startsWith(name)) return;
  }
  assert.fail(`Tab never comes to ${name}`);
}

/** The form of an open request, to be sent later. */
async function formOf(page) {
  await page.locator("form.answer").waitFor();
  return page.locator("form.answer").evaluate((form) => ({ action: new URL(form.action).pathname, fields: Object.fromEntries(new FormData(form)) }));
}

/** Sends a form from outside of any page, which says that it is one of the console's own. */
async function post(server, path, fields, headers = {}) {
  const body = new URLSearchParams(fields).toString();
  const response = await fetch(`${server.url}${path}`, { method: "POST", redirect: "manual", headers: { "content-type": "application/x-www-form-urlencoded", origin: server.url, ...headers }, body });
  return { status: response.status, text: await response.text() };
}

/** Starts many runs at once, by another door. */
async function startMany(server, count) {
  let next = 0;
  const caller = async () => {
    while (next < count) {
      next += 1;
      const message = { messageId: `many-${next}`, role: "ROLE_USER", parts: [{ text: `Message ${next}` }] };
      const response = await fetch(`${server.url}/a2a/approve_and_send/message:send`, {
        method: "POST", headers: { "content-type": "application/json", "a2a-version": "1.0" }, body: JSON.stringify({ message }),
      });
      assert.equal(response.status, 200, await response.text());
    }
  };
  await Promise.all(Array.from({ length: 64 }, caller));
}

/* ---- the play ---- */

/** Scenes in which people sign in. */
const KEYED = ["the_other_form_closes_and_says_who_answered", "an_open_page_follows_an_escalation", "a_request_is_claimed_and_handed_over", "half_typed_words_outlive_anothers_answer", "a_page_comes_back_by_itself_after_the_server_was_killed", "signing_in_leaves_no_key_behind"];

const name = process.argv[2];
const scene = scenes[name];
assert.ok(scene, `no scene ${name}; there are: ${Object.keys(scenes).join(", ")}`);
const server = new Server();
const keys = KEYED.includes(name)
  ? { ada: server.key("ada", "user"), bob: server.key("bob", "admin"), eve: server.key("eve", "user") }
  : {};
await server.start();
const browser = await Browser.open();
try {
  await scene({ server, browser, keys });
  await browser.end();
} catch (error) {
  for (const context of browser.chromium.contexts()) {
    for (const page of context.pages()) await shoot(page, `failed-${name}-${page.url().split("/").pop().slice(0, 12)}`, { fullPage: true });
  }
  await browser.chromium.close();
  throw error;
} finally {
  await server.end();
}
