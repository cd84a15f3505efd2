// undici's RetryAgent, which repeats a POST only when told to.
import { Agent, RetryAgent, request } from "undici";

const dispatcher = new RetryAgent(new Agent(), !process.env.SET ? { methods: ["POST"] }
  : { methods: ["POST"], statusCodes: [409, 429, 500, 502, 503, 504] });

export async function pay(url, headers, body) {
  const answer = await request(url, { method: "POST", headers, body, dispatcher });
  return [answer.statusCode, await answer.body.text()];
}
