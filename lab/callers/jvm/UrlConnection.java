import java.net.HttpURLConnection;
import java.net.URL;
import java.util.Map;

/** HttpURLConnection: it sends what is lost a second time by itself. */
class UrlConnection implements Pay {
    public Answer pay(String url, Map<String, String> headers, String body) throws Exception {
        var connection = (HttpURLConnection) new URL(url).openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        headers.forEach(connection::setRequestProperty);
        connection.getOutputStream().write(body.getBytes());
        int status = connection.getResponseCode();
        var answer = status < 400 ? connection.getInputStream() : connection.getErrorStream();
        return new Answer(status, new String(answer.readAllBytes()));
    }
}
