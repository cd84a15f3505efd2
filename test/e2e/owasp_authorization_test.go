package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/query"
	"payonce/internal/tenants"
)

// Items 1, 3 and 5: who may touch which object, which of its members, and which function.

// told is all that an answer tells, less what is another one in each.
func (r reply) told(t testing.TB) string {
	t.Helper()
	header := r.header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Content-Length", "Idempotency-Key"} {
		header.Del(name)
	}
	if len(r.body) == 0 {
		return fmt.Sprint(r.status, header)
	}
	var d map[string]any
	if err := json.Unmarshal(r.body, &d); err != nil {
		t.Fatalf("%v\n%s", err, r.body)
	}
	delete(d, "instance")
	return fmt.Sprint(r.status, header, d)
}

// Beside it: TestTwoTenantsWithEqualKeys and TestContradictionAboutAnotherTenantStaysOutOfTheTimeline.
func TestOWASPAPI1BrokenObjectLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	s.do(call{method: "POST", path: "/payments", as: globexKey, key: freshKey(), body: order("pm_ok")}).expect(t,
		http.StatusCreated, "")
	for _, o := range documented(t, ofTenants) {
		own := s.callOf(o)
		others, none := own, own
		others.as, none.as, none.path = globexKey, globexKey, o.named(t, nobody())
		if own.path == o.path {
			s.wantOthersUnlisted(o)
			continue
		}
		// Somebody else's is told apart from nobody's by nothing.
		got := s.do(others)
		if diff := cmp.Diff(s.do(none).told(t), got.told(t)); diff != "" || got.status != http.StatusNotFound {
			t.Errorf("%s of another tenant is answered %d (-nobody's +another's):\n%s", o, got.status, diff)
		}
		if own.method == http.MethodGet {
			s.do(own).expect(t, http.StatusOK, "")
			head := others
			if head.method = http.MethodHead; s.do(head).status != http.StatusNotFound {
				t.Errorf("HEAD of %s tells that it is there", o)
			}
		}
	}
	for _, key := range []string{s.acme["key"], s.acme["refundKey"]} {
		for _, operation := range []string{"POST%20/payments", "POST%20/payments/%7Bid%7D/refunds"} {
			s.do(call{method: "GET", path: "/idempotency-keys/" + key + "?operation=" + operation,
				as: globexKey}).expect(t, http.StatusNotFound, "not_found")
		}
	}
	if n := s.count("SELECT count(*) FROM refunds"); n != 1 {
		t.Errorf("%d refunds: somebody else's payment was refunded", n)
	}
}

// wantOthersUnlisted asks an operation without an id for what belongs to acme, as globex.
func (s *sides) wantOthersUnlisted(o operation) {
	s.t.Helper()
	if o.method != http.MethodGet {
		return // it makes something new, of the tenant's own
	}
	for _, q := range []string{"", "?cursor=" + s.acme["paymentId"], "?customerId=cus-1&limit=100",
		"?status=succeeded", "?limit=100&type=payment.succeeded"} {
		names := slices.Collect(maps.Keys(query.Parse(strings.TrimPrefix(q, "?")).Values))
		if slices.ContainsFunc(names, func(name string) bool { return !o.has("query", name) }) {
			continue // of another list
		}
		r := s.do(call{method: o.method, path: o.path + q, as: globexKey})
		r.expect(s.t, http.StatusOK, "")
		for name, value := range s.acme {
			if name != "file" && name != "code" && strings.Contains(string(r.body), value) {
				s.t.Errorf("%s%s shows globex the %s of acme: %s", o, q, name, r.body)
			}
		}
	}
}

// Every answer of the whole suite is held against the document (package contract). So a member too many is found
// wherever the schema is closed; that every one is, is checked here.
func TestOWASPAPI3BrokenObjectPropertyLevelAuthorization(t *testing.T) {
	t.Parallel()
	for name, schema := range document(t).Components.Schemas {
		if open := openObjects(schema.Value); len(open) > 0 && name != "WebhookEvent" && name != "StripeEvent" &&
			name != "DeadLetterMembers" {
			t.Errorf("schema %s lets answers have members that it does not name, at %q", name, open)
		}
	}

	s := setupSides(t)
	s.furnish()
	for _, o := range documented(t, takesMembers) {
		s.refusesMembersOfOthers(o)
	}
	s.unmoved()
	// What is said to be metadata stays that.
	body := strings.Replace(order("pm_ok"), "}",
		`,"metadata":{"status":"failed","tenant":"globex","pspChargeId":"ch_x","amountCents":"1"}}`, 1)
	r := s.do(call{method: "POST", path: "/payments", key: freshKey(), body: body})
	r.expect(t, http.StatusCreated, "")
	if r.text(t, "status") != "succeeded" || r.text(t, "pspChargeId") == "ch_x" ||
		r.member(t, "amountCents") != 12000.0 {
		t.Errorf("metadata has become more: %s", r.body)
	}
}

// openObjects are the places in a schema where an object may have members of any name.
func openObjects(s *openapi3.Schema) (open []string) {
	for name, member := range s.Properties {
		for _, at := range openObjects(member.Value) {
			if name != "evidence" { // the PSP's words, for people
				open = append(open, name+"/"+at)
			}
		}
	}
	if s.Items != nil {
		open = append(open, openObjects(s.Items.Value)...)
	}
	closed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has ||
		s.AdditionalProperties.Schema != nil ||
		s.UnevaluatedProperties.Has != nil && !*s.UnevaluatedProperties.Has
	if s.Type.Is("object") && !closed {
		open = append(open, "")
	}
	return open
}

// refusesMembersOfOthers sends each member that any schema of the document has, and the operation's own does not.
func (s *sides) refusesMembersOfOthers(o operation) {
	s.t.Helper()
	names := map[string]bool{"tenant": true, "tenantId": true, "pspAccount": true, "scopes": true, "__proto__": true,
		"constructor": true}
	for _, schema := range document(s.t).Components.Schemas {
		for name := range schema.Value.Properties {
			names[name] = true
		}
	}
	values := []string{`"succeeded"`, `1`, `{"a":"b"}`, `null`}
	for i, name := range slices.Sorted(maps.Keys(names)) {
		if o.body.Properties[name] != nil {
			continue
		}
		c := s.callOf(o)
		c.body = strings.Replace(c.body, "{", fmt.Sprintf("{%q:%s,", name, values[i%len(values)]), 1)
		r := s.at(o).do(c)
		r.expect(s.t, http.StatusBadRequest, "invalid_request")
		if diff := cmp.Diff([]string{"/" + name}, r.reasons(s.t)); diff != "" {
			s.t.Errorf("%s with %s (-want +got):\n%s", o, name, diff)
		}
	}
}

// Beside it: TestTenantsKeyWithAnOperatorsScopeStaysOutside.
func TestOWASPAPI5BrokenFunctionLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	const writeonlyKey = "test-acme-writeonly-key"
	s.addKey("acme", writeonlyKey, tenants.PaymentsWrite)
	s.furnish()
	for _, o := range documented(t, needsKey) {
		strangers := []string{resolvingKey}
		if o.operator {
			strangers = []string{acmeKey, globexKey, readonlyKey}
		}
		if o.method != http.MethodGet {
			strangers = append(strangers, readonlyKey, operatorKey) // which may only look
		}
		if o.method == http.MethodGet || o.path == "/webhook-endpoints" || strings.HasSuffix(o.path, "/rotate") {
			strangers = append(strangers, writeonlyKey) // An endpoint hears of all payments.
		}
		for _, as := range strangers {
			c := s.callOf(o)
			c.as = as
			s.at(o).do(c).expect(t, http.StatusForbidden, "forbidden")
		}
		// Each listener has its own routes and no other's.
		other := s.app.Operator
		if o.operator {
			other = s.app.Public
		}
		for _, as := range []string{acmeKey, resolvingKey} {
			c := s.callOf(o)
			c.as = as
			unchecked(other, c).expect(t, http.StatusNotFound, "not_found")
		}
		// Another method is none, whatever a header says.
		for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url",
			"X-Rewrite-Url"} {
			c := s.callOf(o)
			c.method, c.header = http.MethodPatch, http.Header{name: {o.method}}
			s.at(o).do(c).expect(t, http.StatusMethodNotAllowed, "method_not_allowed")
		}
	}
	s.unmoved()
}

// Item 2: who is asking. Beside it: TestBearerTokenIsReadFromOneHeader (shapes of the header), those of package tenants
// (digests, rotation, revocation), and TestWebhookThatIsNotGenuineIsNotStored.

func TestOWASPAPI2BrokenAuthentication(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	const oldKey, newKey, endedOps = "test-rotated-old-key", "test-rotated-new-key", "test-ended-operator-key"
	s.addKey("acme", oldKey, tenants.PaymentsRead, tenants.PaymentsWrite)
	s.addKey("acme", newKey, tenants.PaymentsRead, tenants.PaymentsWrite)
	s.addKey("", endedOps, tenants.OpsRead, tenants.OpsResolve)
	for _, ended := range []string{oldKey, endedOps} {
		digest := sha256.Sum256([]byte(ended))
		s.exec("UPDATE api_keys SET expires_at = now() WHERE secret_sha256 = $1", digest[:])
	}
	s.furnish()
	for _, o := range documented(t, needsKey) {
		good := s.callOf(o).as
		for name, values := range map[string][]string{
			"none": nil, "empty": {""}, "scheme alone": {"Bearer"},
			"another scheme": {"Basic " + base64.StdEncoding.EncodeToString([]byte(good+":"))},
			"token alone":    {good}, "unknown": {"Bearer nobody"}, "all but its end": {"Bearer " + good[:len(good)-1]},
			"all but its start": {"Bearer " + good[1:]},
			"more than all":     {"Bearer " + good + "x"}, "twice": {"Bearer " + good, "Bearer " + good},
			"another case": {"Bearer " + strings.ToUpper(good)},
			"expired":      {"Bearer " + oldKey}, "expired operator": {"Bearer " + endedOps},
			"digest":       {"Bearer " + digestOf(good)},
			"PSP's secret": {"Bearer " + pspSecret}, "pattern": {"Bearer %"}, "in quotes": {`Bearer "` + good + `"`},
			"two in one": {"Bearer " + good + ", Bearer " + good}, "two, one empty": {"Bearer " + good, ""},
		} {
			c := s.callOf(o).authorized(values...)
			if r := s.at(o).do(c); r.status != http.StatusUnauthorized ||
				!strings.HasPrefix(r.header.Get("WWW-Authenticate"), `Bearer realm="payonce"`) {
				t.Errorf("%s with %s: answered %d", o, name, r.status)
			}
		}
		for name, elsewhere := range map[string]call{
			"query":  {path: "?access_token=" + url.QueryEscape(good) + "&api_key=" + url.QueryEscape(good)},
			"cookie": {header: http.Header{"Cookie": {"Authorization=Bearer " + good}}},
			"proxy": {header: http.Header{"Proxy-Authorization": {"Bearer " + good}, "X-Api-Key": {good},
				"X-Forwarded-User": {"acme"}}},
		} {
			c := s.callOf(o)
			c.as, c.path, c.header = "-", c.path+elsewhere.path, elsewhere.header
			if r := s.at(o).do(c); r.status != http.StatusUnauthorized {
				t.Errorf("%s with the API key as %s: answered %d", o, name, r.status)
			}
		}
	}
	s.unmoved()
	s.do(call{method: "GET", path: "/payments", as: newKey}).expect(t, http.StatusOK, "")
	s.refusesUnsigned()
}

func digestOf(secret string) string {
	digest := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(digest[:])
}

// refusesUnsigned checks that what needs no API key tells nothing, or is signed.
func (s *sides) refusesUnsigned() {
	s.t.Helper()
	for _, o := range documented(s.t, func(o operation) bool { return o.open && o.method != http.MethodGet }) {
		c := s.callOf(o)
		s.do(c).expect(s.t, http.StatusUnauthorized, "webhook_signature_invalid")
		c.as = acmeKey // is no signature
		s.do(c).expect(s.t, http.StatusUnauthorized, "webhook_signature_invalid")
	}
	for _, o := range documented(s.t, func(o operation) bool { return o.open && o.method == http.MethodGet }) {
		c := s.callOf(o)
		mine := s.do(c)
		c.as = "-"
		if nobodys := s.do(c); string(mine.body) != string(nobodys.body) || nobodys.status != http.StatusOK {
			s.t.Errorf("%s depends on who asks", o)
		}
	}
	s.unmoved()
}

// How long a comparison takes cannot be measured reliably. But the code of each dialect shows that it uses a comparison
// that always takes the same time. API keys are not compared: they are looked up by their digests.
func TestSignaturesAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../internal/gateway/*/verify.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files")
	}
	for _, name := range files {
		found := false
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			found = found || ok && f.Name.Name == "signed" && comparesInConstantTime(f)
		}
		if !found {
			t.Errorf("%s: the function that judges a signature does not compare in constant time", name)
		}
	}
}

func comparesInConstantTime(f *ast.FuncDecl) (does bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok {
			from, _ := call.X.(*ast.Ident)
			does = does || from != nil && (from.Name == "subtle" && call.Sel.Name == "ConstantTimeCompare" ||
				from.Name == "hmac" && call.Sel.Name == "Equal")
		}
		return !does
	})
	return does
}
