package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/go-json-experiment/json"
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

// Beside it: TestTwoTenantsWithEqualKeys, TestEachTenantSeesItsOwnKey, TestRefundIsReadByItsTenantAlone and
// TestContradictionAboutAnotherTenantStaysOutOfTheTimeline.
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
	for _, query := range []string{"", "?cursor=" + s.acme["paymentId"], "?customerId=cus-1&limit=100",
		"?status=succeeded"} {
		r := s.do(call{method: o.method, path: o.path + query, as: globexKey})
		r.expect(s.t, http.StatusOK, "")
		for name, value := range s.acme {
			if name != "file" && name != "code" && strings.Contains(string(r.body), value) {
				s.t.Errorf("%s%s shows globex the %s of acme: %s", o, query, name, r.body)
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

// Beside it: TestAPIKeyWithoutTheScopeIsForbidden, TestOnlyOperatorsMayDecide and
// TestTenantsKeyWithAnOperatorsScopeStaysOutside.
func TestOWASPAPI5BrokenFunctionLevelAuthorization(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	for _, o := range documented(t, needsKey) {
		strangers := []string{resolvingKey, resolvingKey}
		if o.operator {
			strangers = []string{acmeKey, globexKey, readonlyKey}
		}
		if o.method != http.MethodGet {
			strangers = append(strangers, readonlyKey, operatorKey) // which may only look
		}
		for _, as := range strangers {
			c := s.callOf(o)
			c.as = as
			s.at(o).do(c).expect(t, http.StatusForbidden, "forbidden")
		}
		// Each listener has its own routes and no other's.
		other := s.app.Operator()
		if o.operator {
			other = s.app.Public()
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
			c.method, c.header = http.MethodDelete, http.Header{name: {o.method}}
			s.at(o).do(c).expect(t, http.StatusMethodNotAllowed, "method_not_allowed")
		}
	}
	s.unmoved()
}
