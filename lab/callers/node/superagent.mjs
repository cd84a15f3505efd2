// superagent with three retries.
import superagent from "superagent";

export async function pay(url, headers, body) {
  const answer = await superagent.post(url).set(headers).send(body).retry(3);
  return [answer.status, answer.body];
}
