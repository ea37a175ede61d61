// Walk: the shipped workflows, each from its first form to its end, as a person goes through it at the
// console. The pictures are those of `docs/walkthroughs`.

import assert from "node:assert/strict";
import { accessible, say, shoot, startRun } from "./stage.mjs";

/** Wide enough for two columns, and no wider than a page of documentation shows. */
const WINDOW = { viewport: { width: 1120, height: 700 } };
/** One column. */
const COLUMN = { width: 800, height: 700 };

export const walks = {
  async a_customer_is_helped_by_four_agents({ server, browser }) {
    const page = await browser.person(server, WINDOW);
    await page.goto(`${server.url}/console/workflows/multi_tier_support`);
    await say("I need help with order 12345. I want a replacement and need to know when it will arrive.")(page);
    await picture(page, "multi_tier_support-1-start");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.waitForURL(/\/console\/runs\/run_/);
    const run = page.url();
    await turn(page, run, "The item arrived damaged. I'd like a replacement shipped to the same address.", "multi_tier_support-2-turn");
    await turn(page, run, "Great! Can you confirm the shipping cost won't be charged again?");
    await turn(page, run, "Thank you!");
    await finished(page, run);
    assert.equal(await page.locator("div.answered").count(), 3);
    await story(page, "multi_tier_support-3-end");
    await part(page, "Timeline", "multi_tier_support-4-time");

    // From the second pause on, whatever came after it may come again.
    await page.getByText("Fork from a checkpoint").click();
    const again = await page.locator("ol.forks > li").allInnerTexts();
    assert.equal(again.length, 3);
    assert.match(again[0], /Nothing has run since\./);
    assert.match(again[1], /May run again, by what is answered: delivery at delivery, billing at billing/);
  },

  async an_event_is_planned_with_two_answers({ server, browser }) {
    const page = await browser.person(server, WINDOW);
    const run = await begun(page, server, "event_planning", "Plan a party for 30 people");
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Pier 66" }).waitFor();
    await picture(page, "event_planning-1-selection");
    await page.getByRole("button", { name: "Pier 66" }).click();
    await answered(page);
    await page.goto(run);
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("textbox").first().fill("$4000");
    await picture(page, "event_planning-2-budget");
    await page.getByRole("button", { name: /^Send/ }).click();
    await answered(page);
    await finished(page, run);
    for (const part of ["Pier 66", "$4000"]) await page.getByText(part).first().waitFor();
    await story(page, "event_planning-3-end");
  },

  async a_plan_is_changed_and_carried_out_step_by_step({ server, browser }) {
    const page = await browser.person(server, WINDOW);
    const run = await begun(page, server, "research_task", "Measure the dust in the data and publish a report.");
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("heading", { name: "Review this plan." }).waitFor();
    await accessible(page, "a plan");
    await picture(page, "research_task-1-plan");

    // Asking for another version needs a word about what is wrong with this one.
    await page.getByRole("button", { name: "Ask for another version" }).click();
    await page.getByText("This is needed.").waitFor();
    await page.getByRole("link", { name: "Use my own version" }).click();
    const step = (index, member) => page.locator(`[name="answer/plan/steps/${index}/${member}"]`);
    assert.equal(await step(1, "title").inputValue(), "Write the report");
    await step(0, "title").fill("");
    await step(0, "details").fill("");
    await step(1, "details").fill("In plain words, with one figure.");
    await step(2, "title").fill("Explain the dust");
    await page.getByLabel("Note").fill("We have the measurements already.");
    await accessible(page, "the plan's editor");
    await picture(page, "research_task-2-edit");
    await page.getByRole("button", { name: "Review the changes" }).click();
    const diff = page.getByRole("table");
    await diff.waitFor();
    assert.deepEqual(await diff.getByRole("rowheader").allInnerTexts(), ["steps/0", "steps/1/details", "steps/1"]);
    assert.match(await diff.innerText(), /Analyse the data[^]*taken away[^]*not there[^]*Explain the dust/);
    await accessible(page, "the plan's changes");
    await picture(page, "research_task-3-changes");
    await page.getByRole("button", { name: "Use this version" }).click();
    await answered(page);

    await next(page, run, "Step 1: Write the report");
    await picture(page, "research_task-4-gate");
    await page.getByLabel("Note").fill("Keep it short.");
    await page.getByRole("button", { name: "Approve" }).click();
    await answered(page);
    await next(page, run, "May engineer call write_file?");
    assert.match(await page.locator(".deed").innerText(), /report\.md/);
    await picture(page, "research_task-5-tool");
    await page.getByRole("button", { name: "Allow once" }).click();
    await answered(page);
    await next(page, run, "Step 2: Explain the dust");
    await page.getByRole("button", { name: "Approve" }).click();
    await answered(page);
    await finished(page, run);
    await page.getByText("Read and explained.").first().waitFor();
    await story(page, "research_task-6-end");
  },

  async a_customer_is_onboarded_and_an_event_ends_the_wait({ server, browser }) {
    const page = await browser.person(server, WINDOW);
    const run = await begun(page, server, "customer_onboarding", "Onboard Acme");
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Acme Labs" }).waitFor();
    await picture(page, "customer_onboarding-1-account");
    await page.getByRole("button", { name: "Acme Labs" }).click();
    await answered(page);
    await page.goto(run);
    await page.getByRole("link", { name: "Answer it" }).click();
    await page.getByRole("button", { name: "Platform licence" }).click();
    await answered(page);
    await page.goto(run);
    await page.getByText("It asks nobody").waitFor();
    assert.match(await page.locator(".why").innerText(), /waits for the event onboarding_complete.*due in (7 d|6 d 23 h)/);
    await accessible(page, "a run that waits for an event");
    await story(page, "customer_onboarding-2-event");
    await part(page, "Drawing", "customer_onboarding-3-graph");
    await page.getByLabel("What came with it").fill('{"signed_by": "Ada"}');
    await page.getByRole("button", { name: "Send onboarding_complete" }).click();
    await page.getByText("local sent the event onboarding_complete").waitFor();
    await finished(page, run);
    await page.getByText("ended by signal").first().waitFor();
    await story(page, "customer_onboarding-4-end");

    // A run that is over takes no event, and says so.
    const id = run.split("/").pop();
    const late = await fetch(`${server.url}/console/runs/${id}/signal`, { method: "POST", headers: { origin: server.url }, body: new URLSearchParams({ name: "onboarding_complete" }) });
    assert.equal(late.status, 409, await late.text());
  },
};

async function begun(page, server, workflow, words) {
  await startRun(page, server, workflow, say(words));
  return page.url();
}

/** The customer's turn: opened from the run's page, written, sent. */
async function turn(page, run, words, name) {
  await page.goto(run);
  await page.getByRole("link", { name: "Answer it" }).click();
  await page.getByLabel("Your message").fill(words);
  if (name) await picture(page, name);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await answered(page);
}

/** What the run asks next, opened from its page. */
async function next(page, run, prompt) {
  await page.goto(run);
  await page.getByRole("link", { name: "Answer it" }).click();
  await page.getByRole("heading", { level: 1, name: prompt }).waitFor();
}

async function answered(page) {
  await page.getByText("You answered this").waitFor();
}

async function finished(page, run) {
  await page.goto(run);
  await page.getByText("Completed", { exact: true }).waitFor();
}

/** A picture of a page for the documentation, with nothing left out. */
async function picture(page, name) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    window.scrollTo(0, 0);
    // The foot of a page is for scrolling past.
    document.querySelector("main").style.paddingBottom = "1rem";
  });
  await shoot(page, name, { fullPage: true });
}

/** A picture of a run's page in one column, down to the end of what was said. */
async function story(page, name) {
  await page.setViewportSize(COLUMN);
  await page.evaluate(() => window.scrollTo(0, 0));
  const said = page.locator("#run .split > div").first();
  // None while the page is being renewed: it is drawn anew at once.
  let box = null;
  while (box === null) {
    await said.waitFor();
    box = await said.boundingBox();
  }
  const clip = { x: 0, y: 0, width: COLUMN.width, height: Math.floor(box.y + box.height) - 2 };
  await shoot(page, name, { fullPage: true, clip });
  await page.setViewportSize(WINDOW.viewport);
}

/** A picture of one part of a page. */
async function part(page, label, name) {
  await shoot(page.locator(`section[aria-label="${label}"]`), name);
}
