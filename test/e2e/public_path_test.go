package e2e

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"payonce/internal/config"
)

// publicPath is the path of PUBLIC_URL here. The proxy takes it away, so the API never receives it.
const publicPath = "/payments-api"

// behindPath is a world behind a proxy that serves the API below a path, and nothing else.
func behindPath(t *testing.T) (w *world, through func(call) reply) {
	t.Helper()
	proxy := httptest.NewUnstartedServer(nil) // its address is in PUBLIC_URL
	base := "http://" + proxy.Listener.Addr().String()
	w = setup(t, func(o *options) { o.settings = func(c *config.API) { c.PublicURL = base + publicPath } })
	api, err := url.Parse(w.api.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Config.Handler = http.StripPrefix(publicPath,
		&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }})
	proxy.Start()
	t.Cleanup(proxy.Close)
	// The contract's paths begin at the server's own root, so a client of its own asks the proxy.
	outside := &world{t: t, api: proxy, http: proxy.Client()}
	outside.http.Timeout = patience
	return w, outside.do
}

func TestEachPathInAnAnswerLeadsBackThroughAProxyThatTakesAPathAway(t *testing.T) {
	t.Parallel()
	w, through := behindPath(t)
	follow := func(what, path, member, id string) {
		t.Helper()
		shown := through(call{method: "GET", path: path})
		if shown.status != http.StatusOK || shown.text(t, member) != id {
			t.Errorf("%s: %q leads to %d %s", what, path, shown.status, shown.body)
		}
	}
	for method, status := range map[string]int{
		"pm_ok": http.StatusCreated, "pm_declined": http.StatusPaymentRequired,
		"pm_timeout_charged": http.StatusAccepted,
	} {
		key := freshKey()
		c := call{method: "POST", path: publicPath + "/payments", key: key, body: order(method)}
		r := through(c)
		r.expect(t, status, "")
		id := r.text(t, "paymentId")
		follow(method, r.header.Get("Location"), "paymentId", id)
		if status == http.StatusPaymentRequired {
			follow("instance of the decline", r.text(t, "instance"), "paymentId", id)
		}
		if status == http.StatusAccepted {
			continue // A lookup may complete it meanwhile.
		}
		through(c).same(t, r)
		view := through(call{method: "GET", path: publicPath + "/idempotency-keys/" + key})
		view.expect(t, http.StatusOK, "")
		follow("resource of the key", view.text(t, "resource"), "paymentId", id)
		stored, _ := view.member(t, "response").(map[string]any)
		if stored["location"] != r.header.Get("Location") {
			t.Errorf("%s: stored is the location %v, sent %s", method, stored["location"], r.header.Get("Location"))
		}
		if status == http.StatusCreated {
			refund := through(call{method: "POST", path: publicPath + "/payments/" + id + "/refunds", key: freshKey(),
				body: `{"amountCents":1000}`})
			refund.expect(t, http.StatusCreated, "")
			follow("refund", refund.header.Get("Location"), "refundId", refund.text(t, "refundId"))
		}
	}
	for _, c := range []call{
		{method: "POST", path: "/payments", body: order("pm_ok")}, {method: "GET", path: "/nothing"},
		{method: "GET", path: "/payments", as: "-"}, {method: "PUT", path: "/payments"},
		{method: "POST", path: "/webhooks/psp", body: "{}"},
	} {
		path := c.path
		c.path = publicPath + path
		r := through(c)
		if instance, want := r.text(t, "instance"), publicPath+path+"#"+r.header.Get("X-Request-Id"); instance != want {
			t.Errorf("%s %s: instance %q, want %q", c.method, path, instance, want)
		}
		page := strings.TrimPrefix(r.text(t, "type"), strings.TrimSuffix(w.own.PublicURL, publicPath))
		through(call{method: "GET", path: page, as: "-"}).expect(t, http.StatusOK, "")
	}
	// The operator's listener has an address of its own, which nobody puts a path before.
	r := w.operator("/operator/summary")
	if instance := r.text(t, "instance"); !strings.HasPrefix(instance, "/operator/summary#") {
		t.Errorf("the operator's instance is %q", instance)
	}
}

// toldPath finds the paths in the examples of openapi.yaml.
var toldPath = regexp.MustCompile(`(instance|resource|location|example): /.*`)

var linked = regexp.MustCompile(`(?:href|src|data-document|action)="([^"#]+)`)

func TestEachLinkOfThePagesLeadsThroughAProxyThatTakesAPathAway(t *testing.T) {
	t.Parallel()
	w, through := behindPath(t)
	origin := strings.TrimSuffix(w.own.PublicURL, publicPath)
	seen := map[string]bool{}
	var queue []string
	collect := func(page reply) {
		for _, found := range linked.FindAllStringSubmatch(string(page.body), -1) {
			path := strings.TrimPrefix(html.UnescapeString(found[1]), origin)
			if !strings.HasPrefix(path, "data:") && !strings.HasPrefix(path, w.own.OperatorURL()) && !seen[path] {
				seen[path] = true
				queue = append(queue, path)
			}
		}
	}
	for _, nowhere := range []string{"/no-such-page", "/problems/no_such_problem"} {
		page := through(call{method: "GET", path: publicPath + nowhere, as: "-"})
		page.expect(t, http.StatusNotFound, "")
		collect(page)
	}
	collect(unchecked(w.app.Operator, call{method: "GET", path: "/console/sign-in"}))
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if strings.HasPrefix(path, "/console/") {
			continue // of the operator's listener
		}
		page := through(call{method: "GET", path: path, as: "-"})
		if page.status != http.StatusOK {
			t.Errorf("%s: status %d", path, page.status)
		}
		if strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
			collect(page)
		}
	}
	for _, path := range []string{"/", "/docs", "/docs/docs.js", "/openapi.yaml", "/problems", "/problems/not_found"} {
		if !seen[publicPath+path] {
			t.Errorf("no page leads to %s", publicPath+path)
		}
	}
	document := string(through(call{method: "GET", path: publicPath + "/openapi.yaml", as: "-"}).body)
	if !strings.Contains(document, "servers:\n  - url: "+publicPath+"\n") {
		t.Error("the published document leads to another server")
	}
	for line := range strings.Lines(document) {
		if _, path, told := strings.Cut(toldPath.FindString(line), ": "); told &&
			!strings.HasPrefix(path, publicPath+"/") && !strings.HasPrefix(path, "/operator/") {
			t.Errorf("the published document has %s", line)
		}
	}
}
