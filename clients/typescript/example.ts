// Sends itself a message, takes it and acknowledges it: node clients/typescript/example.ts URL TOKEN NAME
import { Postroom, Refused } from "./client.ts";

declare const process: { argv: string[] };
const [url = "", token = "", name = ""] = process.argv.slice(2);
const inbox = new Postroom(url, token);

const sent = await inbox.call("POST /api/mailbox", { body: { to: name, payload: "grüße / 1", msg_id: "a/1" } });
console.log("stored", sent.msg_id);
const delivery = await inbox.call("POST /api/mailbox/{session}/dequeue", { path: { session: name }, query: { wait: 10 } });
if (delivery !== null) {
  const { delivery_token, message: { msg_id, payload } } = delivery;
  await inbox.call("POST /api/mailbox/{session}/{msg_id}/ack", { path: { session: name, msg_id }, body: { delivery_token } });
  console.log("acked", payload);
}
console.log("then", await inbox.call("POST /api/mailbox/{session}/dequeue", { path: { session: name } }));
try {
  await inbox.call("POST /api/mailbox/{session}/dequeue", { path: { session: "another" } });
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log("refused", error.status, error.code);
}
