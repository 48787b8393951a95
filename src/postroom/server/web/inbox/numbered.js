// Which question the number keys answer: the one that the person has seen, and not one that took its place meanwhile.

import { toast } from "../parts/toast.js";

export class NumberedQuestion {
  /** `place` is where the person is. There, the first question that is shown is the one that was seen. */
  see(place, id) {
    if (place !== this.place) this.id = null;
    this.place = place;
    this.id ??= id;
  }

  /** The question that was seen was answered here: the next one that is shown counts. */
  forget() {
    this.id = null;
  }

  /** Return whether a key may answer a question. If it is another one than was seen, say so: the next press answers it. */
  mayAnswer(id) {
    const isSeen = !this.id || this.id === id;
    this.id = id;
    if (!isSeen) toast("This is another question now. Read it, then press the number again.");
    return isSeen;
  }
}
