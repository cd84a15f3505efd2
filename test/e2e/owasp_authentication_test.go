package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"payonce/internal/tenants"
)

// Item 2: who is asking. Beside it: TestRequestWithoutAnActiveAPIKeyIsUnauthenticated (shapes of the header), those of
// package tenants (digests, rotation, revocation), and TestWebhookThatIsNotGenuineIsNotStored.

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
			"PSP's secret": {"Bearer " + pspSecret}, "pattern": {"Bearer %"},
		} {
			c := s.callOf(o).authorized(values...)
			if r := s.at(o).do(c); r.status != http.StatusUnauthorized || r.header.Get("WWW-Authenticate") == "" {
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
