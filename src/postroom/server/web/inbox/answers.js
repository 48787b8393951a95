// Answering in the list, without opening the entry: a choice, or a decision about a proposal. Each can be taken back for some seconds.

import { NumberedQuestion } from "./numbered.js";
import { approvalOf, askToReject, forgetProposal, mayChoose, NAMES } from "./question.js";
import { sendLater } from "./reply.js";

const DECISIONS = ["approve", "reject"]; // of a proposal, by their number keys

export class Answers {
  constructor(inbox) {
    this.inbox = inbox;
    this.numbered = new NumberedQuestion();
  }

  async choose({ question }, choice) {
    if (await mayChoose(question, choice)) this.send(question, { body: choice }, choice);
  }

  /** Approve or reject a proposal: "approve" or "reject". */
  async decide(entry, type) {
    try {
      const decision = type === "approve" ? approvalOf(entry.question) : await askToReject(entry.question);
      if (decision) this.send(entry.question, { decision }, NAMES[decision.type]);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.open(entry); // what was written into it is not JSON, which is said there
    }
  }

  /** Open an entry, with the focus in its question. */
  open({ id, question }) {
    this.inbox.go(id);
    this.inbox.detail.focusQuestion(question.entryId);
  }

  /** Choose by a number: an answer, or to approve or reject a proposal. Return whether there was something to choose. */
  chooseNumber(entry, number) {
    const { state, choices = [], proposal, entryId } = entry?.question ?? {};
    const choice = (proposal ? DECISIONS : choices)[number - 1];
    if (state !== "open" || !choice) return false;
    if (this.numbered.mayAnswer(entryId)) proposal ? this.decide(entry, choice) : this.choose(entry, choice);
    return true;
  }

  send({ entryId: id }, body, words) {
    const done = (answer) => {
      if (answer && body.decision) forgetProposal(id);
      return this.inbox.entries.heard([]); // until then its row stays away
    };
    this.numbered.forget();
    sendLater(id, body, { words, of: `choice:${id}`, done });
  }
}
