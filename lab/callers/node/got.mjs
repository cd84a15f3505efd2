// got, which repeats a POST only when told to.
import got from "got";

export async function pay(url, headers, body) {
  const answer = await got.post(url, { headers, body, retry: { limit: 2, methods: ["POST"] } });
  return [answer.statusCode, answer.body];
}
