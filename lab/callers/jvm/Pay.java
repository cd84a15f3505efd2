import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;

/** Pays what comes on standard input, by the caller that is named: a line for each payment, and one for its outcome. */
interface Pay {
    record Answer(int status, String body) {}

    Answer pay(String url, Map<String, String> headers, String body) throws Exception;

    static void main(String[] args) throws Exception {
        Pay caller = args[0].equals("urlconnection") ? new UrlConnection() : new NewClient();
        say("version", System.getProperty("java.version"));
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] part = line.split("\t", 3);
            try {
                var answer = caller.pay(System.getenv("URL"), Map.of("Authorization", "Bearer " + part[0],
                    "Content-Type", "application/json", "Idempotency-Key", part[1]), part[2]);
                say("key", part[1], "status", answer.status(), "body", answer.body());
            } catch (Exception error) {
                say("key", part[1], "error", error.toString());
            }
        }
    }

    static void say(Object... members) {
        var text = new StringBuilder();
        for (int i = 0; i < members.length; i += 2) {
            var value = members[i + 1] instanceof String s
                ? '"' + s.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"' : members[i + 1];
            text.append(i == 0 ? "{" : ",").append('"').append(members[i]).append("\":").append(value);
        }
        System.out.println(text.append('}'));
    }
}
