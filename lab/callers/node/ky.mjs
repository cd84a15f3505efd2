// ky, which repeats a POST only when told to.
import ky from "ky";

export async function pay(url, headers, body) {
  const answer = await ky.post(url, { headers, body, retry: { limit: 2, methods: ["post"] } });
  return [answer.status, await answer.text()];
}
