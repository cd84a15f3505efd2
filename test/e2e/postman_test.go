package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/internal/httpapi"
	"payonce/test/contract"
)

// The Postman collection, as far as it can be judged without Postman. `make postman` runs it.

// postmanItem is a folder or a request of the collection.
type postmanItem struct {
	Name     string
	Item     []postmanItem
	Request  *postmanRequest
	Response []postmanExample
}

type postmanRequest struct {
	Method string
	Header []postmanHeader
	URL    struct{ Raw string }
	Body   struct{ Raw string }
}

// postmanExample is a saved answer, with the request as it was sent.
type postmanExample struct {
	OriginalRequest struct {
		Method string
		Header []postmanHeader
		URL    string
		Body   struct{ Raw string }
	}
	Code   int
	Header []postmanHeader
	Body   string
}

type postmanHeader struct{ Key, Value string }

func postmanCollection(t *testing.T) (folders []postmanItem) {
	t.Helper()
	text, err := os.ReadFile("../../postman/payonce.postman_collection.json")
	if err != nil {
		t.Fatal(err)
	}
	var collection postmanItem
	if err := json.Unmarshal(text, &collection, json.MatchCaseInsensitiveNames(true)); err != nil ||
		len(collection.Item) == 0 {
		t.Fatalf("%d folders, %v", len(collection.Item), err)
	}
	return collection.Item
}

// requests are those of a folder and of the folders in it.
func (i postmanItem) requests() (all []postmanItem) {
	if i.Request != nil {
		return []postmanItem{i}
	}
	for _, inside := range i.Item {
		all = append(all, inside.requests()...)
	}
	return all
}

// A newcomer plays first, and finds everything that there is.
func TestPostmanHasARequestToPlayWithForEachOperation(t *testing.T) {
	t.Parallel()
	play := postmanCollection(t)[0]
	if play.Name != "Play" {
		t.Fatalf("the first folder is %s", play.Name)
	}
	for _, o := range documented(t, func(operation) bool { return true }) {
		server := "{{baseUrl}}"
		if o.operator {
			server = "{{operatorUrl}}"
		}
		path := regexp.MustCompile(`\\\{[a-zA-Z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(server+o.path), `[^/?]+`)
		asked := regexp.MustCompile("^" + path + `(\?.*)?$`)
		if !slices.ContainsFunc(play.requests(), func(r postmanItem) bool {
			return r.Request.Method == o.method && asked.MatchString(r.Request.URL.Raw)
		}) {
			t.Errorf("there is no request for %s", o)
		}
	}
}

// An example that is out of date misleads: each must be an answer that the document has, to the request that it is
// saved with.
func TestPostmanHasAnExampleOfEachAnswer(t *testing.T) {
	t.Parallel()
	// A document of its own: what is only an example must not count as seen.
	document, err := contract.Load(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, folder := range postmanCollection(t) {
		for _, r := range folder.requests() {
			if len(r.Response) != 1 {
				t.Errorf("%s / %s has %d examples; EXAMPLES=1 make postman saves them", folder.Name, r.Name,
					len(r.Response))
				continue
			}
			example := r.Response[0]
			if strings.HasPrefix(r.Request.URL.Raw, "{{pspUrl}}") {
				continue
			}
			ours++
			res, err := document.Transport(t, example).RoundTrip(example.request(t))
			if err != nil {
				t.Fatalf("%s / %s: %v", folder.Name, r.Name, err)
			}
			_ = res.Body.Close()
		}
	}
	if ours < 100 {
		t.Errorf("only %d examples were judged", ours)
	}
}

func (e postmanExample) request(t *testing.T) *http.Request {
	t.Helper()
	sent := e.OriginalRequest
	url := strings.NewReplacer("{{baseUrl}}", "http://localhost:8080", "{{operatorUrl}}",
		"http://localhost:8081").Replace(sent.URL)
	req, err := http.NewRequestWithContext(t.Context(), sent.Method, url, strings.NewReader(sent.Body.Raw))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range sent.Header {
		req.Header.Add(h.Key, h.Value)
	}
	req.Header.Set("Authorization", "Bearer of-the-collection") // an example has no API key
	return req
}

// RoundTrip answers with the example.
func (e postmanExample) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	res := &http.Response{StatusCode: e.Code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(e.Body))}
	for _, h := range e.Header {
		res.Header.Add(h.Key, h.Value)
	}
	return res, nil
}
