import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;

/** java.net.http: it sends once. */
class NewClient implements Pay {
    private final HttpClient client = HttpClient.newHttpClient();

    public Answer pay(String url, Map<String, String> headers, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString(body));
        headers.forEach(request::header);
        var answer = client.send(request.build(), BodyHandlers.ofString());
        return new Answer(answer.statusCode(), answer.body());
    }
}
