package problem_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"payonce/internal/problem"
)

func TestDeclineHasTheBytesThatWereStoredBefore(t *testing.T) {
	t.Parallel()
	doc := problem.New("http://localhost:8080", problem.PaymentDeclined,
		`The payment provider refused the charge: <insufficient> & "more".`, "/payments/pay_01jd7z3k6vf2wtsx2q4r8y9abc")
	doc.PaymentID = "pay_01jd7z3k6vf2wtsx2q4r8y9abc"
	doc.DeclineCode = "insufficient_funds"

	const golden = `{"type":"http://localhost:8080/problems/payment_declined","title":"The payment was declined","status":402,` +
		`"detail":"The payment provider refused the charge: <insufficient> & \"more\".",` +
		`"instance":"/payments/pay_01jd7z3k6vf2wtsx2q4r8y9abc","code":"payment_declined","retryable":false,"newKeySafe":true,` +
		`"paymentId":"pay_01jd7z3k6vf2wtsx2q4r8y9abc","declineCode":"insufficient_funds"}` + "\n"
	if diff := gocmp.Diff(golden, string(doc.JSON())); diff != "" {
		t.Errorf("decline bytes (-want +got):\n%s", diff)
	}
}

func TestEveryMemberHasItsPlace(t *testing.T) {
	t.Parallel()
	doc := problem.New("https://pay.example/", problem.InvalidRequest, "Two members are wrong.", "/payments#req-1")
	doc.PaymentID, doc.RefundID, doc.DeclineCode = "pay_1", "re_1", "lost_card"
	doc.Errors = []problem.Detail{
		problem.AtPointer("", "is not a JSON object"),
		problem.AtPointer("/amountCents", "must be at least 1"),
		{Parameter: "limit", Detail: "must be at most 100"},
		{Header: "Prefer", Detail: "wait must be at most 10"},
	}

	const golden = `{"type":"https://pay.example/problems/invalid_request","title":"The request is invalid","status":400,` +
		`"detail":"Two members are wrong.","instance":"/payments#req-1","code":"invalid_request","retryable":false,"newKeySafe":false,` +
		`"paymentId":"pay_1","refundId":"re_1","declineCode":"lost_card","errors":[` +
		`{"pointer":"","detail":"is not a JSON object"},` +
		`{"pointer":"/amountCents","detail":"must be at least 1"},` +
		`{"parameter":"limit","detail":"must be at most 100"},` +
		`{"header":"Prefer","detail":"wait must be at most 10"}]}` + "\n"
	if diff := gocmp.Diff(golden, string(doc.JSON())); diff != "" {
		t.Errorf("document bytes (-want +got):\n%s", diff)
	}
}

func TestAbsentMembersAreOmitted(t *testing.T) {
	t.Parallel()
	got := string(problem.New("", problem.ShuttingDown, "d", "i").JSON())
	const golden = `{"type":"/problems/shutting_down","title":"The server is shutting down","status":503,"detail":"d",` +
		`"instance":"i","code":"shutting_down","retryable":true,"newKeySafe":false}` + "\n"
	if diff := gocmp.Diff(golden, got); diff != "" {
		t.Errorf("document bytes (-want +got):\n%s", diff)
	}
}

func TestInvalidUTF8CannotBreakADocument(t *testing.T) {
	t.Parallel()
	got := string(problem.New("", problem.InvalidRequest, "bad \xff byte", "i").JSON())
	if !strings.Contains(got, "\"detail\":\"bad \uFFFD byte\"") {
		t.Errorf("invalid byte was not replaced: %s", got)
	}
}

func TestPathBeginsWithThePathOfThePublicURL(t *testing.T) {
	t.Parallel()
	for publicURL, want := range map[string]string{
		"https://pay.example": "/payments", "https://pay.example/": "/payments", "http://[::1]:8080": "/payments",
		"https://pay.example/api": "/api/payments", "https://pay.example:1/a/b%20c/": "/a/b%20c/payments",
	} {
		if got := problem.Path(publicURL, "/payments"); got != want {
			t.Errorf("%q: %q, want %q", publicURL, got, want)
		}
	}
}

func TestUnknownCodeBecomesInternalError(t *testing.T) {
	t.Parallel()
	doc := problem.New("http://h", "no_such_code", "d", "i")
	if doc.Code != problem.InternalError || doc.Status != 500 || doc.Type != "http://h/problems/internal_error" {
		t.Errorf("got %+v, want internal_error", doc)
	}
}

func TestCatalogueIsOrderedByStatusThenCode(t *testing.T) {
	t.Parallel()
	inOrder := slices.IsSortedFunc(problem.All(), func(a, b problem.Entry) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	if !inOrder {
		t.Error("All() is not ordered by status and code")
	}
}

func TestCallersCannotChangeTheCatalogue(t *testing.T) {
	t.Parallel()
	all := problem.All()
	all[0].Title = "changed"
	if problem.All()[0].Title == "changed" {
		t.Error("a caller changed the catalogue through All()")
	}
}

func TestEveryEntryExplainsItself(t *testing.T) {
	t.Parallel()
	seen := map[problem.Code]bool{}
	for _, entry := range problem.All() {
		if seen[entry.Code] {
			t.Errorf("%s is listed twice", entry.Code)
		}
		seen[entry.Code] = true
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(string(entry.Code)) {
			t.Errorf("%s is not snake_case", entry.Code)
		}
		if entry.Title == "" || entry.Meaning == "" || entry.WhatToDo == "" {
			t.Errorf("%s lacks an explanation: %+v", entry.Code, entry)
		}
		if (entry.Curl == "") == (entry.Unseen == "") {
			t.Errorf("%s: needs either a line that shows it or a reason why there is none", entry.Code)
		}
		if entry.Curl != "" && (!strings.Contains(entry.Curl, `curl `) || !strings.Contains(entry.Curl, "$BASE/") ||
			strings.Contains(entry.Curl, "\n")) {
			t.Errorf("%s: the curl example must be one line against $BASE: %s", entry.Code, entry.Curl)
		}
		if found, ok := problem.Lookup(entry.Code); !ok || found != entry {
			t.Errorf("Lookup(%s) = %+v, %v", entry.Code, found, ok)
		}
	}
	if _, ok := problem.Lookup("no_such_code"); ok {
		t.Error("Lookup found a code that does not exist")
	}
}

// A refusal knows of its own request only. An earlier one with the same key may have been charged, and who reads that
// the key was not used may pay with another one.
func TestNoRefusalSaysOfAKeyThatItWasNotUsed(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"openapi.yaml": string(raw)}
	for _, e := range problem.All() {
		texts[string(e.Code)] = e.Meaning + " " + e.WhatToDo
	}
	wrong := regexp.MustCompile(`(?i)the\s+key\s+(has|was|is)\s+not\s+(been\s+)?used|before\s+the\s+key\s+was\s+used`)
	for name, text := range texts {
		if said := wrong.FindString(text); said != "" {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// The codes that a client may answer with the same key are the contract's, not a by-product of the catalogue.
func TestOnlyTheseCodesAreRetryable(t *testing.T) {
	t.Parallel()
	want := []problem.Code{
		problem.IdempotencyKeyHeld, problem.IdempotencyKeyInProgress, problem.RateLimited, problem.InternalError,
		problem.IdempotencyStoreUnavailable, problem.PSPUnavailable, problem.ShuttingDown,
		problem.WebhooksNotConfigured,
	}
	var got []problem.Code
	for _, entry := range problem.All() {
		if entry.Retryable {
			got = append(got, entry.Code)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("retryable codes (-want +got):\n%s", diff)
	}
}

// A machine may take a new key for the same intent after these codes alone: see Entry.NewKeySafe for what each of the
// others does not prove.
func TestANewKeyIsSafeOnlyAfterADecline(t *testing.T) {
	t.Parallel()
	want := []problem.Code{problem.PaymentDeclined, problem.RefundDeclined}
	var got []problem.Code
	for _, entry := range problem.All() {
		if entry.NewKeySafe {
			got = append(got, entry.Code)
		}
		if document := problem.New("", entry.Code, "d", "i"); document.NewKeySafe != entry.NewKeySafe {
			t.Errorf("%s: the document says %v", entry.Code, document.NewKeySafe)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("codes after which a new key is safe (-want +got):\n%s", diff)
	}
}

// A constant without an entry would quietly answer as internal_error.
func TestEveryCodeConstantHasAnEntry(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		constants++
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := problem.Lookup(problem.Code(code)); !known {
			t.Errorf("%s has no entry in the catalogue", code)
		}
		return true
	})
	if all := len(problem.All()); constants != all {
		t.Errorf("%d constants, %d entries", constants, all)
	}
}
