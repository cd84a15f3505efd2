// axios: it sends once.
import axios from "axios";

export async function pay(url, headers, body) {
  const answer = await axios.post(url, body, { headers });
  return [answer.status, answer.data];
}
