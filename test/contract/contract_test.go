package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/httpapi"
	"payonce/internal/problem"
	"payonce/test/contract"
)

const (
	publicURL = "http://payonce.test"
	key       = "01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44"
	paymentID = "pay_01k9z3w5m8fk2v7q4d6h0r1txe"
	refundID  = "re_01k9z40a1b2c3d4e5f6g7h8jkm"

	payment = `{"paymentId":"` + paymentID +
		`","status":"succeeded","customerId":"cus-1","amountCents":12000,"currency":"KRW",` +
		`"amount":"12000","paymentMethod":"pm_ok","pspChargeId":"ch_1","amountRefundedCents":0,"createdAt":"2026-11-20T09:30:00.123456Z"}`
	order = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}`
)

// loaded gives each test a tally of its own, at the price of compiling the document once.
var loaded = sync.OnceValues(func() (*contract.Document, error) { return contract.Load(httpapi.OpenAPI()) })

func load(t *testing.T) *contract.Document {
	t.Helper()
	document, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return document.Fresh()
}

// listener is a test that only keeps what it is told.
type listener struct {
	testing.TB

	mu         sync.Mutex
	complaints []string
}

func (l *listener) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complaints = append(l.complaints, fmt.Sprintf(format, args...))
}

// exchange is a request and what the server makes of it. Zero members of the request are the ordinary.
type exchange struct {
	method, path string
	sent         map[string]string
	body         string

	status   int
	received map[string]string
	answer   string
}

// paid is an exchange without fault.
func paid() exchange {
	return exchange{
		method: "POST", path: "/payments", body: order,
		sent: map[string]string{
			"Authorization": "Bearer k", "Idempotency-Key": key, "Content-Type": "application/json",
		},
		status: 201,
		received: map[string]string{
			"X-Request-Id": "req-1", "Location": "/payments/" + paymentID, "Content-Type": "application/json",
			"Idempotency-Key":     key,
			"Idempotent-Replayed": "false", "Idempotency-Key-Expires": "Sun, 22 Nov 2026 09:30:00 GMT",
		},
		answer: payment + "\n",
	}
}

// refused is an exchange without fault that ended in a problem.
func refused(path string, code problem.Code) exchange {
	e := paid()
	e.path = path
	doc := problem.New(publicURL, code, "detail", path+"#req-1")
	e.status = doc.Status
	e.received["Content-Type"] = problem.ContentType
	delete(e.received, "Location")
	switch code {
	case problem.PaymentDeclined:
		doc.PaymentID, doc.DeclineCode, doc.Instance = paymentID, "insufficient_funds", "/payments/"+paymentID
	case problem.RefundDeclined:
		doc.PaymentID, doc.RefundID, doc.DeclineCode, doc.Instance = paymentID, refundID, "lost_card", "/refunds/"+
			refundID
	case problem.InvalidRequest:
		doc.Errors = []problem.Detail{problem.AtPointer("", "is no JSON")}
	case problem.Unauthenticated:
		e.received["WWW-Authenticate"] = `Bearer realm="payonce"`
	}
	if doc.Retryable {
		e.received["Retry-After"] = "1"
	}
	e.answer = string(doc.JSON())
	return e
}

func read(path, answer string) exchange {
	return exchange{
		method: "GET", path: path, sent: map[string]string{"Authorization": "Bearer k"}, status: 200, answer: answer,
		received: map[string]string{"X-Request-Id": "req-1", "Content-Type": "application/json"},
	}
}

// complaintsAbout plays the exchange through a real server and returns what the transport says.
func complaintsAbout(t *testing.T, document *contract.Document, e exchange) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Date"] = nil
		for name, value := range e.received {
			w.Header().Set(name, value)
		}
		if e.received["Content-Type"] == "" {
			w.Header()["Content-Type"] = nil // nor may net/http guess one
		}
		w.WriteHeader(e.status)
		_, _ = io.WriteString(w, e.answer)
	}))
	defer server.Close()
	ears := &listener{TB: t}
	client := &http.Client{Transport: document.Transport(ears, server.Client().Transport)}
	request, err := http.NewRequestWithContext(t.Context(), e.method, server.URL+e.path, strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range e.sent {
		for line := range strings.SplitSeq(value, "\n") {
			request.Header.Add(name, line)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if e.method != http.MethodHead && string(answer) != e.answer {
		t.Errorf("the transport changed the answer: %q", answer)
	}
	return ears.complaints
}

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	spec, err := openapi3.NewLoader().LoadFromData(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(),
		openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	if spec.OpenAPI != "3.1.0" {
		t.Errorf("version %s", spec.OpenAPI)
	}
}

// The document, the catalogue and the pages behind the types must not drift apart.
func TestDocumentAndCatalogueHaveTheSameCodes(t *testing.T) {
	t.Parallel()
	documented := map[problem.Code]int{}
	for _, row := range load(t).Rows() {
		if row.Code != "" {
			documented[problem.Code(row.Code)] = row.Status
		}
	}
	catalogued := map[problem.Code]int{}
	for _, entry := range problem.All() {
		catalogued[entry.Code] = entry.Status
	}
	if diff := cmp.Diff(catalogued, documented); diff != "" {
		t.Errorf("codes with their status (-catalogue +document):\n%s", diff)
	}
}

// A title in an example that is not the catalogue's teaches something wrong.
func TestExamplesOfProblemsAreTheCatalogues(t *testing.T) {
	t.Parallel()
	spec, err := openapi3.NewLoader().LoadFromData(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	shown := map[problem.Code]bool{}
	check := func(response *openapi3.ResponseRef) {
		media := response.Value.Content[problem.ContentType]
		if media == nil {
			return
		}
		for name, example := range media.Examples {
			value := example.Value.Value.(map[string]any)
			entry, _ := problem.Lookup(problem.Code(value["code"].(string)))
			shown[entry.Code] = true
			if value["title"] != entry.Title || value["retryable"] != entry.Retryable ||
				value["newKeySafe"] != entry.NewKeySafe {
				t.Errorf("example %s has title %q, retryable %v and newKeySafe %v, the catalogue %q, %v and %v",
					name, value["title"], value["retryable"], value["newKeySafe"], entry.Title, entry.Retryable,
					entry.NewKeySafe)
			}
		}
	}
	for _, response := range spec.Components.Responses {
		check(response)
	}
	for _, item := range spec.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, response := range operation.Responses.Map() {
				check(response)
			}
		}
	}
	for _, entry := range problem.All() {
		if !shown[entry.Code] {
			t.Errorf("%s has no example", entry.Code)
		}
	}
}

func TestHonestServerHearsNoComplaint(t *testing.T) {
	t.Parallel()
	quoted := paid()
	quoted.sent["Idempotency-Key"] = `"` + key + `"`
	replayed := paid()
	replayed.received["Idempotent-Replayed"] = "true"
	inFlight := refused("/payments", problem.IdempotencyKeyInProgress)
	preferred := paid()
	preferred.sent["Prefer"] = "respond-async\nwait=5"
	preferred.received["Preference-Applied"] = "wait=5, respond-async"
	head := read("/payments/"+paymentID, "")
	head.method = "HEAD"
	page := read("/docs", "<p>")
	page.received["Content-Type"] = "text/html; charset=utf-8"
	page.sent = nil
	unchanged := page
	unchanged.path, unchanged.status, unchanged.answer = "/openapi.yaml", 304, ""
	noRoute := refused("/nowhere", problem.NotFound)
	noMethod := refused("/payments/"+paymentID, problem.MethodNotAllowed)
	noMethod.received["Allow"] = "GET"
	// 120 characters, and more than 255 as long as they are escaped.
	inspected := read("/idempotency-keys/"+strings.Repeat("%2F", 120),
		strings.ReplaceAll(inProgress, key, strings.Repeat("/", 120)))

	for name, e := range map[string]exchange{
		"201": paid(), "quoted key": quoted, "replay": replayed, "409": inFlight, "Prefer": preferred, "HEAD": head,
		"page": page,
		"304":  unchanged, "no route": noRoute, "no method": noMethod, "key of slashes": inspected,
		"402":          refused("/payments", problem.PaymentDeclined),
		"402 refund":   refused("/payments/"+paymentID+"/refunds", problem.RefundDeclined),
		"400":          refused("/payments", problem.InvalidRequest),
		"401":          refused("/payments", problem.Unauthenticated),
		"503":          refused("/payments", problem.PSPUnavailable),
		"empty list":   read("/payments?limit=100&status=failed", `{"data":[],"hasMore":false}`),
		"full list":    read("/payments", `{"data":[`+payment+`],"hasMore":true,"nextCursor":"c"}`),
		"key of today": read("/idempotency-keys/"+key+"?operation=POST%20/payments", inProgress),
	} {
		if complaints := complaintsAbout(t, load(t), e); len(complaints) > 0 {
			t.Errorf("%s: %q", name, complaints)
		}
	}
}

const inProgress = `{"key":"` + key + `","operation":"POST /payments","status":"in_progress","attempt":1,"generation":1,` +
	`"fingerprint":"8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4","createdAt":"2026-11-20T09:30:00.123456Z",` +
	`"reservedAt":"2026-11-20T09:30:00.123456Z","lockedUntil":"2026-11-20T09:30:30.123456Z","expiresAt":"2026-11-22T09:30:00.123456Z",` +
	`"resource":"/payments/` + paymentID + `","timeline":[]}`

func TestEveryLieIsNoticed(t *testing.T) {
	t.Parallel()
	for name, lie := range lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := lie.honest
			e.sent, e.received = maps.Clone(e.sent), maps.Clone(e.received)
			lie.change(&e)
			document := load(t)
			complaints := complaintsAbout(t, document, e)
			if !slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, lie.want) }) {
				t.Errorf("no complaint about %q: %q", lie.want, complaints)
			}
			if unseen := document.Unseen(); len(unseen) != len(document.Rows()) {
				t.Error("a lie counted as a row that was shown")
			}
		})
	}
}

// Tests of refusals send what is not allowed.
func TestRefusedRequestMayBeWrong(t *testing.T) {
	t.Parallel()
	e := refused("/payments", problem.InvalidRequest)
	e.body = `{"nonsense":`
	if complaints := complaintsAbout(t, load(t), e); len(complaints) > 0 {
		t.Errorf("%q", complaints)
	}
}

func TestComplaintSaysWhatHappenedWithoutSecrets(t *testing.T) {
	t.Parallel()
	e := paid()
	e.sent["Authorization"] = "Bearer very-secret"
	delete(e.received, "Location")
	complaints := complaintsAbout(t, load(t), e)
	want := "contract: POST /payments answered 201: header Location is missing\n" + payment + "\n"
	if diff := cmp.Diff([]string{want}, complaints); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
}

func TestTallyShowsWhatNoTestHasSeen(t *testing.T) {
	t.Parallel()
	document := load(t)
	created := contract.Row{Operation: "POST /payments", Status: 201}
	missing := contract.Row{Operation: "POST /payments", Status: 400, Code: "idempotency_key_missing"}
	nowhere := contract.Row{Operation: contract.Elsewhere, Status: 404, Code: "not_found"}
	for _, row := range []contract.Row{created, missing, nowhere} {
		if !slices.Contains(document.Rows(), row) {
			t.Errorf("the document lacks %+v", row)
		}
	}
	before := len(document.Unseen())
	complaintsAbout(t, document, paid())
	complaintsAbout(t, document, paid())
	complaintsAbout(t, document, refused("/nowhere", problem.NotFound))
	unseen := document.Unseen()
	if len(unseen) != before-2 || slices.Contains(unseen, created) || !slices.Contains(unseen, missing) {
		t.Errorf("%d of %d rows are unseen after two: %v", len(unseen), before, unseen)
	}
	if n := document.Seen(created); n != 2 {
		t.Errorf("created was seen %d times, want 2", n)
	}
}

// A test may post without end, to see the server stop it.
func TestBodyIsNotReadAhead(t *testing.T) {
	t.Parallel()
	answer := refused("/payments", problem.BodyTooLarge)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// Without this the server would wait for the body before it answers.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Errorf("answer early: %v", err)
		}
		for name, value := range answer.received {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(answer.answer)))
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.answer)
	}))
	t.Cleanup(server.Close)
	endless, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.CloseWithError(errors.New("the test is over")) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/payments", endless)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	client := &http.Client{Transport: load(t).Transport(t, server.Client().Transport)}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestClientThatHangsUpIsNotJudged(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-arrived
		hangUp()
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/payments", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: load(t).Transport(t, server.Client().Transport)}
	response, err := client.Do(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the client's own cancellation", err)
	}
}

func TestSharedDocumentIsTheOneThatTransportUses(t *testing.T) {
	t.Parallel()
	first, err := contract.Shared()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := contract.Shared(); again != first {
		t.Error("each call has a tally of its own")
	}
	if contract.Transport(t, http.DefaultTransport) == nil {
		t.Error("no transport")
	}
}

func TestBrokenDocumentIsAnError(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no YAML":      "{",
		"no component": "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths: {}\n",
		"bad pattern": strings.Replace(string(httpapi.OpenAPI()), `pattern: '^[A-Z]{3}$'`,
			`pattern: '^[A-Z'`, 1),
	} {
		if _, err := contract.Load([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
