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

// loaded is the document, compiled once.
var loaded = sync.OnceValues(func() (*contract.Document, error) { return contract.Load(httpapi.OpenAPI()) })

func load(t *testing.T) *contract.Document {
	t.Helper()
	document, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return document
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
			complaints := complaintsAbout(t, load(t), e)
			if !slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, lie.want) }) {
				t.Errorf("no complaint about %q: %q", lie.want, complaints)
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

// lie is a change to an honest exchange, and a part of the complaint that it must cause.
type lie struct {
	honest exchange
	change func(*exchange)
	want   string
}

func lies() map[string]lie {
	all := liesAboutAnswers()
	maps.Copy(all, liesInProblems())
	maps.Copy(all, liesByLaxServers())
	return all
}

// set, drop, say, send and post are the ways to lie.

func set(name, value string) func(*exchange) {
	return func(e *exchange) { e.received[name] = value }
}

func drop(name string) func(*exchange) {
	return func(e *exchange) { delete(e.received, name) }
}

func say(old, updated string) func(*exchange) {
	return func(e *exchange) { e.answer = strings.ReplaceAll(e.answer, old, updated) }
}

func send(name, value string) func(*exchange) {
	return func(e *exchange) { e.sent[name] = value }
}

func post(body string) func(*exchange) {
	return func(e *exchange) { e.body = body }
}

func liesAboutAnswers() map[string]lie {
	busy := refused("/payments", problem.IdempotencyKeyInProgress)
	declined := refused("/payments", problem.PaymentDeclined)
	return map[string]lie{
		"undocumented status": {paid(), func(e *exchange) { e.status = 200 }, "no such status"},
		"undocumented error":  {paid(), func(e *exchange) { e.status = 418 }, "no such status"},
		"status of no route": {paid(), func(e *exchange) { e.path = "/nowhere" },
			"no such status for elsewhere"},
		"no request id":      {paid(), drop("X-Request-Id"), "X-Request-Id is missing"},
		"no location":        {paid(), drop("Location"), "Location is missing"},
		"location elsewhere": {paid(), set("Location", "/payments/1"), "header Location"},
		"no echo":            {paid(), drop("Idempotency-Key"), "Idempotency-Key is missing"},
		"401 without an echo": {refused("/payments", problem.Unauthenticated), drop("Idempotency-Key"),
			"Idempotency-Key is \"\""},
		"echo of a key that is refused": {refused("/payments", problem.Unauthenticated), func(e *exchange) {
			e.sent["Idempotency-Key"] = "4111-1111-1111-1111"
			e.received["Idempotency-Key"] = "4111-1111-1111-1111"
		}, "was sent"},
		"echo of a repeated key": {refused("/payments", problem.Unauthenticated),
			send("Idempotency-Key", key+"\n"+key), "was sent"},
		"another echo":   {paid(), set("Idempotency-Key", "another-key-00001"), "was sent"},
		"replayed maybe": {paid(), set("Idempotent-Replayed", "maybe"), "header Idempotent-Replayed"},
		"expires in seconds": {paid(), set("Idempotency-Key-Expires", "172800"),
			"header Idempotency-Key-Expires"},
		"retry after a date":     {busy, set("Retry-After", "soon"), "no integer"},
		"retry at once":          {busy, set("Retry-After", "0"), "header Retry-After"},
		"no retry after":         {busy, drop("Retry-After"), "Retry-After is missing"},
		"409 as a replay":        {busy, set("Idempotent-Replayed", "true"), "claims to be a replay"},
		"wrong media type":       {paid(), set("Content-Type", "text/plain"), "media type of the answer"},
		"no media type":          {paid(), drop("Content-Type"), "media type of the answer"},
		"problem as plain JSON":  {declined, set("Content-Type", "application/json"), "media type of the answer"},
		"unknown member":         {paid(), say(`{"paymentId"`, `{"extra":1,"paymentId"`), "extra"},
		"missing member":         {paid(), say(`"amount":"12000",`, ``), "amount"},
		"null member":            {paid(), say(`"ch_1"`, `null`), "pspChargeId"},
		"repeated member":        {paid(), say(`{"paymentId"`, `{"status":"failed","paymentId"`), "no valid JSON"},
		"not JSON":               {paid(), func(e *exchange) { e.answer = "OK" }, "no valid JSON"},
		"wrong status member":    {paid(), say("succeeded", "processing"), "/status"},
		"success without charge": {paid(), say(`"pspChargeId":"ch_1",`, ``), "pspChargeId"},
		"local time":             {paid(), say("00.123456Z", "00.123456+09:00"), "/createdAt"},
		"time without micros":    {paid(), say("00.123456Z", "00Z"), "/createdAt"},
		"month thirteen":         {paid(), say("2026-11-20T", "2026-13-20T"), "/createdAt"},
		"fraction of a cent":     {paid(), say("12000,", "12000.5,"), "/amountCents"},
		"more pages without cursor": {read("/payments", `{"data":[],"hasMore":false}`), say("false", "true"),
			"nextCursor"},
		"completed without response": {read("/idempotency-keys/"+key, inProgress), say("in_progress", "completed"),
			"response"},
		"document as JSON": {
			read("/openapi.yaml", ""), func(e *exchange) { e.status = 200; e.received["ETag"] = `"1"` }, "media type",
		},
	}
}

func liesInProblems() map[string]lie {
	busy := refused("/payments", problem.IdempotencyKeyInProgress)
	declined := refused("/payments", problem.PaymentDeclined)
	return map[string]lie{
		"code of another status": {declined, say("payment_declined", "refund_declined"),
			"is not documented for it"},
		"unknown code":   {declined, say("payment_declined", "no_money"), "not in the catalogue"},
		"status differs": {declined, say(`"status":402`, `"status":400`), "says status 400"},
		"type of another code": {declined, say("/problems/payment_declined", "/problems/not_found"),
			"does not lead"},
		"another title": {declined, say("The payment was declined", "Sorry"), "differ from the catalogue"},
		"retryable": {declined, say(`"retryable":false`, `"retryable":true`),
			"differ from the catalogue"},
		"newKeySafe": {declined, say(`"newKeySafe":true`, `"newKeySafe":false`),
			"newKeySafe differ from the catalogue"},
		"decline of another payment": {declined, say(`"instance":"/payments/pay_0`, `"instance":"/payments/pay_1`),
			"identifies neither"},
		"instance of another":      {busy, say("#req-1", "#req-2"), "identifies neither"},
		"decline without a reason": {declined, say(`,"declineCode":"insufficient_funds"`, ``), "declineCode"},
		"error without a place": {
			refused("/payments", problem.InvalidRequest), say(`"pointer":"",`, ``), "/errors/0",
		},
		"two places for one error": {
			refused("/payments", problem.InvalidRequest), say(`"pointer":"",`, `"pointer":"","header":"Prefer",`),
			"/errors/0",
		},
	}
}

// liesByLaxServers are answers to requests that should have been refused.
func liesByLaxServers() map[string]lie {
	return map[string]lie{
		"took no API key": {paid(), send("Authorization", ""), "without an API key"},
		"took no key": {paid(), func(e *exchange) {
			delete(e.sent, "Idempotency-Key")
			delete(e.received,
				"Idempotency-Key")
		}, "header parameter Idempotency-Key is missing"},
		"took a short key": {paid(), send("Idempotency-Key", "short"), "header parameter Idempotency-Key"},
		"took two keys":    {paid(), send("Idempotency-Key", key+"\nanother-key-00001"), "is repeated"},
		"took an unknown member": {paid(), post(`{"customerId":"c","amountCents":1,"currency":"KRW","x":1}`),
			"additional properties"},
		"took another case": {paid(), post(`{"CustomerId":"c","amountCents":1,"currency":"KRW"}`), "customerId"},
		"took a repeated member": {paid(), post(`{"customerId":"c","customerId":"c","amountCents":1,"currency":"KRW"}`),
			"no valid JSON"},
		"took zero": {paid(), post(`{"customerId":"c","amountCents":0,"currency":"KRW"}`), "/amountCents"},
		"took too much": {paid(), post(`{"customerId":"c","amountCents":1000000000000,"currency":"KRW"}`),
			"/amountCents"},
		"took a long name": {
			paid(), post(`{"customerId":"c","amountCents":1,"currency":"KRW","metadata":{"` + strings.Repeat("n", 41) +
				`":"v"}}`), "invalid propertyName",
		},
		"took no body": {paid(), post(""), "no valid JSON"},
		"took a form": {paid(), send("Content-Type", "application/x-www-form-urlencoded"),
			"media type of the request"},
		"took a limit": {read("/payments?limit=101", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"query parameter limit"},
		"took a word for it": {read("/payments?limit=many", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"no integer"},
		"took an unknown filter": {read("/payments?colour=red", `{"data":[],"hasMore":false}`), func(*exchange) {},
			"no query parameter colour"},
		"took another id": {read("/payments/1", payment), func(*exchange) {}, "path parameter paymentId"},
		"took a body":     {read("/payments", `{"data":[],"hasMore":false}`), post("x"), "no request body"},
	}
}
