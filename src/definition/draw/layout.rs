//! Layout: where boxes and arrows go: in rows, as few crossings as a few sweeps can make of it.
//!
//! The usual four steps: break cycles, put every node a row below those that lead to it, order
//! each row by its neighbours, then move the nodes of a row toward them. An arrow that passes
//! several rows gets a place in each of them, so that it never runs through a box.

use crate::definition::draw::graph::{Graph, Shape};

const CHAR_WIDTH: i32 = 8;
const NOTE_CHAR_WIDTH: i32 = 7;
const PADDING: i32 = 36;
const ROW_GAP: i32 = 56;
const COLUMN_GAP: i32 = 28;
const MARGIN: i32 = 24;
/// Within the column's gap, so that what is docked is not taken for the next column's.
const DOCK_GAP_MAX: i32 = 26;
/// A few sweeps bring the order of rows to rest; more change nothing.
const SWEEPS: usize = 8;

/// Where a box lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

/// The way of one arrow: from top to bottom, whichever way it points.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// The points where it leaves one row and enters the next, in pairs.
    pub(super) points: Vec<((i32, i32), (i32, i32))>,
    /// Whether it points upward.
    pub(super) is_reversed: bool,
}

/// Where everything goes.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    /// A box for each node.
    pub(super) boxes: Vec<Rect>,
    /// A way for each edge.
    pub(super) routes: Vec<Route>,
}

/// A place in a row: a node's, or one where an arrow passes.
struct Slot {
    row: usize,
    width: i32,
    height: i32,
    x: i32,
}

/// Where everything goes.
pub(super) fn of(graph: &Graph) -> Layout {
    let reversed = back_edges(graph);
    let rows_of = rows_of(graph, &reversed);
    let mut slots: Vec<Slot> = graph
        .nodes
        .iter()
        .zip(&rows_of)
        .map(|(node, row)| {
            let width = chars(&node.label) * CHAR_WIDTH;
            let width = width.max(chars(&node.note) * NOTE_CHAR_WIDTH) + PADDING;
            let height = match (node.shape, node.note.is_empty()) {
                (Shape::Terminal, _) => 32,
                (Shape::Agent | Shape::Person, true) => 40,
                (Shape::Agent | Shape::Person, false) => 52,
            };
            Slot { row: *row, width, height, x: 0 }
        })
        .collect();
    let chains = chains(graph, &reversed, &rows_of, &mut slots);
    let neighbours = neighbours(&chains, slots.len());
    let mut rows = vec![Vec::new(); rows_of.iter().max().map_or(0, |last| last + 1)];
    for (index, slot) in slots.iter().enumerate() {
        rows[slot.row].push(index);
    }
    order(&mut rows, &neighbours, &slots);
    spread(&rows, &neighbours, &mut slots);
    measure(graph, &reversed, &chains, &rows, &slots)
}

fn chars(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 64).min(i32::MAX / 64)
}

/// For each edge, whether it leads back to where the walk came from: those are laid out upside
/// down, so that what remains has no cycle.
fn back_edges(graph: &Graph) -> Vec<bool> {
    let mut reversed = vec![false; graph.edges.len()];
    let mut state = vec![0_u8; graph.nodes.len()];
    for root in 0..graph.nodes.len() {
        // 1 is on the way, 2 is done. The stack is our own: a long chain must not end the program's.
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            if next == 0 && state[node] != 0 {
                continue;
            }
            state[node] = 1;
            let mut out = graph.edges.iter().enumerate().skip(next);
            match out.find(|(_, edge)| edge.from == node) {
                None => state[node] = 2,
                Some((index, edge)) => {
                    stack.push((node, index + 1));
                    reversed[index] = state[edge.to] == 1;
                    if state[edge.to] == 0 {
                        stack.push((edge.to, 0));
                    }
                }
            }
        }
    }
    reversed
}

/// The row of each node: one below the lowest of those that lead to it.
fn rows_of(graph: &Graph, reversed: &[bool]) -> Vec<usize> {
    let mut rows = vec![0; graph.nodes.len()];
    for _ in 0..graph.nodes.len() {
        let mut is_settled = true;
        for (edge, reversed) in graph.edges.iter().zip(reversed) {
            let (above, below) = ends(edge.from, edge.to, *reversed);
            if above != below && rows[below] <= rows[above] {
                rows[below] = rows[above] + 1;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    rows
}

fn ends(from: usize, to: usize, reversed: bool) -> (usize, usize) {
    if reversed { (to, from) } else { (from, to) }
}

/// For each edge, the slots it passes from top to bottom; slots between are made here.
fn chains(
    graph: &Graph,
    reversed: &[bool],
    rows: &[usize],
    slots: &mut Vec<Slot>,
) -> Vec<Vec<usize>> {
    let mut chain = |(edge, reversed): (&super::graph::Edge, &bool)| {
        let (above, below) = ends(edge.from, edge.to, *reversed);
        let mut chain = vec![above];
        for row in rows[above] + 1..rows[below] {
            slots.push(Slot { row, width: COLUMN_GAP / 2, height: 0, x: 0 });
            chain.push(slots.len() - 1);
        }
        chain.push(below);
        chain
    };
    graph.edges.iter().zip(reversed).map(&mut chain).collect()
}

/// For each slot, those it is joined to in the row above, and below.
fn neighbours(chains: &[Vec<usize>], slots: usize) -> Vec<[Vec<usize>; 2]> {
    let mut neighbours = vec![[Vec::new(), Vec::new()]; slots];
    for pair in chains.iter().flat_map(|chain| chain.windows(2)) {
        neighbours[pair[1]][0].push(pair[0]);
        neighbours[pair[0]][1].push(pair[1]);
    }
    neighbours
}

/// Orders each row by where its neighbours stand, from above and from below in turn.
fn order(rows: &mut [Vec<usize>], neighbours: &[[Vec<usize>; 2]], slots: &[Slot]) {
    let mut place = vec![0; slots.len()];
    let note = |row: &[usize], place: &mut [usize]| {
        row.iter().enumerate().for_each(|(index, slot)| place[*slot] = index);
    };
    for row in rows.iter() {
        note(row, &mut place);
    }
    for sweep in 0..SWEEPS {
        let side = sweep % 2;
        let count = rows.len();
        for step in 0..count {
            let row = if side == 0 { step } else { count - 1 - step };
            let weight = |slot: &usize| {
                let near = &neighbours[*slot][side];
                let sum: usize = near.iter().map(|one| place[*one]).sum();
                if near.is_empty() { place[*slot] * 1_000 } else { sum * 1_000 / near.len() }
            };
            let mut sorted: Vec<(usize, usize)> =
                rows[row].iter().map(|slot| (weight(slot), *slot)).collect();
            sorted.sort_by_key(|(weight, _)| *weight);
            rows[row] = sorted.into_iter().map(|(_, slot)| slot).collect();
            note(&rows[row], &mut place);
        }
    }
}

/// Moves each slot toward the middle of its neighbours, as far as its row allows. `x` is a middle.
fn spread(rows: &[Vec<usize>], neighbours: &[[Vec<usize>; 2]], slots: &mut [Slot]) {
    for row in rows {
        let wanted = vec![0; row.len()];
        settle(row, &wanted, slots);
    }
    for sweep in 0..SWEEPS * 2 {
        let count = rows.len();
        for step in 0..count {
            let row = if sweep % 2 == 0 { &rows[step] } else { &rows[count - 1 - step] };
            let middle = |slot: &usize| {
                let near: Vec<i32> =
                    neighbours[*slot].iter().flatten().map(|one| slots[*one].x).collect();
                let most = i32::try_from(near.len()).unwrap_or(1).max(1);
                if near.is_empty() { slots[*slot].x } else { near.iter().sum::<i32>() / most }
            };
            let wanted: Vec<i32> = row.iter().map(middle).collect();
            settle(row, &wanted, slots);
        }
    }
}

/// Puts the slots of a row where they want to be, and apart: halfway between pushing all of them
/// to the right and all of them to the left.
fn settle(row: &[usize], wanted: &[i32], slots: &mut [Slot]) {
    let apart = |one: usize, other: usize, slots: &[Slot]| {
        i32::midpoint(slots[row[one]].width, slots[row[other]].width) + COLUMN_GAP
    };
    let mut right = wanted.to_vec();
    for index in 1..row.len() {
        right[index] = right[index].max(right[index - 1] + apart(index - 1, index, slots));
    }
    let mut left = wanted.to_vec();
    for index in (1..row.len()).rev() {
        left[index - 1] = left[index - 1].min(left[index] - apart(index - 1, index, slots));
    }
    for (index, slot) in row.iter().enumerate() {
        slots[*slot].x = i32::midpoint(left[index], right[index]);
    }
}

fn measure(
    graph: &Graph,
    reversed: &[bool],
    chains: &[Vec<usize>],
    rows: &[Vec<usize>],
    slots: &[Slot],
) -> Layout {
    let left = slots.iter().map(|slot| slot.x - slot.width / 2).min().unwrap_or(0);
    let right = slots.iter().map(|slot| slot.x + slot.width / 2).max().unwrap_or(0);
    let mut tops = Vec::new();
    let mut y = MARGIN;
    for row in rows {
        let height = row.iter().map(|slot| slots[*slot].height).max().unwrap_or(0);
        tops.push((y, height));
        y += height + ROW_GAP;
    }
    let x_of = |slot: &Slot| slot.x - left + MARGIN;
    let rect = |slot: &Slot| {
        let (top, row) = tops[slot.row];
        // Where an arrow passes a row it goes straight through.
        let height = if slot.height == 0 { row } else { slot.height };
        let (x, y) = (x_of(slot) - slot.width / 2, top + (row - height) / 2);
        Rect { x, y, width: slot.width, height }
    };
    let neighbours = neighbours(chains, slots.len());
    let joint = |pair: &[usize]| {
        let (upper, lower) = (&slots[pair[0]], &slots[pair[1]]);
        let leave = x_of(upper) + docked(slots, upper, &neighbours[pair[0]][1], pair[1]);
        let enter = x_of(lower) + docked(slots, lower, &neighbours[pair[1]][0], pair[0]);
        ((leave, rect(upper).y + rect(upper).height), (enter, rect(lower).y))
    };
    let route = |(chain, reversed): (&Vec<usize>, &bool)| Route {
        points: chain.windows(2).map(joint).collect(),
        is_reversed: *reversed,
    };
    Layout {
        width: right - left + 2 * MARGIN,
        height: y - ROW_GAP + MARGIN,
        boxes: slots.iter().take(graph.nodes.len()).map(rect).collect(),
        routes: chains.iter().zip(reversed).map(route).collect(),
    }
}

/// How far from its middle the arrow to `other` meets a box: arrows are spread along its side, in
/// the order of where they go, so that each keeps its own head.
fn docked(slots: &[Slot], slot: &Slot, side: &[usize], other: usize) -> i32 {
    let before = |one: &&usize| (slots[**one].x, **one) < (slots[other].x, other);
    let place = i32::try_from(side.iter().filter(before).count()).unwrap_or(0);
    let last = i32::try_from(side.len()).unwrap_or(1) - 1;
    let gap = (slot.width - PADDING).max(0) / last.max(1);
    (2 * place - last) * gap.min(DOCK_GAP_MAX) / 2
}
