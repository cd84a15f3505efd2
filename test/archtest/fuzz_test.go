package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// parsers are the functions that read what came from outside, and the fuzz target that each of them is reached by; or,
// behind a dash, why it needs none. The rule below keeps it honest: a function that calls one of decoders must be here,
// and what is here must exist.
var parsers = map[string]string{
	"client.New":                      "- the address of the API, of who starts it",
	"client.codeIn":                   "FuzzAnswer",
	"client.VerifyEvent":              "FuzzEvent",
	"client.eventIn":                  "FuzzEvent",
	"client.fits":                     "FuzzAnswer",
	"client.parseLine":                "FuzzJournalLine",
	"client.resultOf":                 "FuzzAnswer",
	"client.retryAfter":               "FuzzRetryAfter",
	"client.signed":                   "FuzzEvent",
	"client.understand":               "FuzzAnswer",
	"internal/admin.expireKey":        "- package uuid alone",
	"internal/admin.permissionsOf":    "FuzzKeysArgs",
	"internal/admin.setInstallation":  "- package uuid alone",
	"internal/app.freeNear":           "- a port that CheckAddress has taken",
	"cmd/mockpsp.readSettings":        "FuzzSettings",
	"internal/cardnumber.In":          "FuzzIn",
	"internal/cardnumber.dayFirst":    "FuzzIn",
	"internal/console.askedOtherwise": "- a column of our own row",
	"internal/deadletters.ParseID":    "- package uuid, and the comparison with what it has read",
	"internal/cli.Parse":              "FuzzParse",
	"internal/config.CheckAddress":    "FuzzLoad",
	"internal/config.checkBase":       "FuzzLoad",
	"internal/config.checkPublic":     "FuzzLoad",
	"internal/config.Parse":           "FuzzLoad",
	"internal/config.publicURLFrom":   "FuzzLoad",

	"internal/events.CheckURL": "FuzzCheckURL",
	"internal/app.addressesOf": "- what config has checked",
	"internal/config.check":    "FuzzLoad",

	"internal/sequence.ParseEvents": "- a file of the demo's own, and what cannot be read is no event",

	"demo/shop.ask":               "- the answer of our own API",
	"demo/shop.told":              "- a payment in an event of our own API, whose signature was checked",
	"demo/controls.pay":           "- the answer of our own API",
	"demo/controls.readPSP":       "- the answer of our own mock",
	"demo/controls.presetOf":      "- the answer of our own mock, and our own presets",
	"demo/controls.resendWebhook": "- the answer of our own mock",

	"demo/embeddedpg.attached":     "- names of directories in /proc",
	"demo/embeddedpg.dropAccounts": "- the system's own accounts",
	"demo/embeddedpg.logTail":      "FuzzLogTail",
	"demo/embeddedpg.mayDropRoot":  "- /proc/self/status",
	"demo/embeddedpg.newestFirst":  "- an order of places to look at, whatever they are called",
	"demo/embeddedpg.parseVersion": "FuzzVersion",
	"demo/embeddedpg.postmaster":   "FuzzPostmasterPID",
	"demo/embeddedpg.restoreLinks": "- a file of the pinned package whose programs are run",

	"demo/mockpsp.CheckWebhookURL": "- one URL, of who starts it",
	"demo/mockpsp.curl":            "- what CheckWebhookURL has taken",
	"demo/mockpsp.follow":          "- a time that we have written",
	"demo/mockpsp.getSettlement":   "- package time alone",
	"demo/mockpsp.keyedBody":       "- package mime alone",
	"demo/mockpsp.parseCharge":     "FuzzChargeBody",
	"demo/mockpsp.parseCursor":     "FuzzListQuery",
	"demo/mockpsp.parseDoorForm":   "FuzzDoorForm",
	"demo/mockpsp.parseFaults":     "FuzzFaults",
	"demo/mockpsp.parseListQuery":  "FuzzListQuery",
	"demo/mockpsp.parseRefund":     "FuzzRefundBody",
	"demo/mockpsp.parseResend":     "FuzzResend",
	"demo/mockpsp.parseStrictly":   "FuzzChargeBody",
	"demo/mockpsp.readRates":       "FuzzRateForm",
	"demo/mockpsp.receiverOf":      "- what CheckWebhookURL has taken",
	"demo/mockpsp.replay":          "FuzzWebhookFile",
	"demo/mockpsp.restore":         "FuzzLedgerFile",
	"demo/mockpsp.restoreDialect":  "FuzzLedgerFile",
	"demo/mockpsp.restoreTime":     "FuzzLedgerFile",
	"demo/mockpsp.set":             "FuzzListQuery",
	"demo/mockpsp.view":            "- what CheckWebhookURL has taken",
	"demo/mockpsp.webhookKey":      "- one secret, of who starts it",

	"demo/mockpsp/stripe.between":    "FuzzIntentForm",
	"demo/mockpsp/stripe.number":     "FuzzIntentForm",
	"demo/mockpsp/stripe.readParams": "FuzzIntentForm",
	"demo/mockpsp/stripe.readNote":   "FuzzNote",

	"internal/gateway.ParseRecord":           "FuzzParseRecord",
	"internal/gateway.ParseTime":             "FuzzParseRecord",
	"internal/gateway.Storable":              "FuzzEvidence",
	"internal/gateway/native.asStored":       "FuzzPayload",
	"internal/gateway/native.verify":         "FuzzVerify",
	"internal/gateway/native.judge":          "FuzzReply",
	"internal/gateway/native.newSettlement":  "FuzzSettlement",
	"internal/gateway/native.nextOf":         "FuzzPage",
	"internal/gateway/native.ParseEvent":     "FuzzPayload",
	"internal/gateway/native.parsePage":      "FuzzPage",
	"internal/gateway/native.parseSecret":    "FuzzSecret",
	"internal/gateway/native.lineOf":         "FuzzSettlement",
	"internal/gateway/native.signed":         "FuzzSettlement",
	"internal/gateway/native.refusedBy":      "FuzzReply",
	"internal/gateway/stripe.bookOf":         "FuzzBook",
	"internal/gateway/stripe.verify":         "FuzzSignature",
	"internal/gateway/stripe.parseSignature": "FuzzSignature",
	"internal/gateway/stripe.readIntentOf":   "FuzzEvent",
	"internal/gateway/stripe.parseCursor":    "- a cursor that we have returned",
	"internal/gateway/stripe.parseEvent":     "FuzzEvent",
	"internal/gateway/stripe.parseIntent":    "FuzzReply",
	"internal/gateway/stripe.parseList":      "FuzzPage",
	"internal/gateway/stripe.parseRefund":    "FuzzReply",
	"internal/gateway/stripe.problemIn":      "FuzzReply",
	"internal/gateway/stripe.readCharge":     "FuzzPage",
	"internal/gateway/stripe.readDispute":    "FuzzEvent",
	"internal/gateway/stripe.readRefund":     "FuzzEvent",
	"internal/gateway/stripe.reversal":       "FuzzBook",
	"internal/gateway/wire.New":              "- PSP_URL and STRIPE_URL, which are FuzzLoad's",
	"internal/gateway/wire.TextIn":           "- FuzzPage of each dialect",
	"internal/gateway/wire.object":           "- FuzzPage of each dialect",

	"internal/console.open":            "FuzzSession",
	"internal/console.columnsOf":       "FuzzColumns",
	"internal/console.ownPath":         "FuzzOwnPath",
	"internal/console.plain":           "FuzzColumns",
	"internal/operator.Books":          "FuzzOperatorFilter",
	"internal/operator.Statements":     "FuzzOperatorFilter",
	"internal/operator.parseToken":     "FuzzPlan",
	"internal/operator.parseCursor":    "FuzzOperatorFilter",
	"internal/operator.parsePosition":  "FuzzOperatorFilter",
	"internal/operator.parseRunCursor": "FuzzOperatorFilter",
	"internal/operator.parseNumber":    "FuzzOperatorFilter",
	"internal/operator.Find":           "- package uuid alone, and the comparison with what the database has",
	"internal/operator.deadLettersOf":  "FuzzOperatorFilter",
	"internal/console.viewOf":          "- package time alone, for a field that shows what queryIn has read",
	"internal/console.queryIn":         "- package time alone, and what the filter of the list reads",
	"internal/console.resentIn":        "- packages strconv and time alone",
	"internal/console.shownURL":        "- a URL that CheckURL has taken",
	"internal/console.resolve":         "- package strconv, and a version that must not be zero",

	"internal/query.instant": "FuzzQuery",
	"internal/query.Limit":   "FuzzQuery",
	"internal/query.Parse":   "FuzzQuery",

	"internal/httpapi.bearer":       "FuzzBearer",
	"internal/httpapi.checkSyntax":  "FuzzDecodeBody",
	"internal/httpapi.createRefund": "FuzzRefundBody",
	"internal/httpapi.decode":       "FuzzDecodeBody",
	"internal/httpapi.filterOf":     "FuzzFilter",
	"internal/httpapi.isJSON":       "FuzzReadJSON",
	"internal/httpapi.keyInPath":    "FuzzKeyInPath",
	"internal/httpapi.keyOf":        "FuzzKeyHeader",

	"internal/httpapi.operationOf":       "FuzzKeyInPath",
	"internal/httpapi.preferenceOf":      "FuzzPrefer",
	"internal/httpapi.resolveDeadLetter": "FuzzDecisionBody",
	"internal/httpapi.takeWebhook":       "FuzzWebhookRoute",

	"internal/operator/commands.parseStatement": "FuzzStatementArgs",

	"internal/idempotency.Canonical":        "FuzzCanonical",
	"internal/idempotency.ParseKey":         "FuzzParseKey",
	"internal/idempotency.ParsePassThrough": "FuzzParsePassThrough",
	"internal/payment.ParseID":              "FuzzParseID",
	"internal/payment.ParseRefundID":        "FuzzParseID",
	"internal/judge.forTimeline":            "- evidence that gateway has written",
	"internal/payments.paymentOf":           "- a row of ours",
	"internal/payments.disputesOf":          "- rows of ours",
	"internal/payments.refundIn":            "- rows of ours",
	"internal/events.ParseID":               "FuzzParseID",
	"internal/payments.withAsked":           "- evidence that gateway has written",
	"internal/judge.in":                     "FuzzIDInEvidence",
	"internal/judge.hasStatus":              "- evidence that judge and gateway have written",
	"internal/reconcile.judgeDay":           "- a job's arguments, which we have written",
	"internal/statement.majorOf":            "- an amount that a column has held",
}

// fuzzed are the streets that read what came from outside. What test/ reads is what tests send and say; the reader of
// the wire protocol has a target all the same.
var fuzzed = []string{"client/...", "cmd/...", "demo/...", "internal/..."}

// decoders are the calls by which a parser is known; strconv's are found by their prefix.
var decoders = []string{
	"csv.NewReader", "env.ParseWithOptions", "flags.Parse", "http.ParseTime", "httpsfv.UnmarshalItem",
	"json.NewDecoder", "json.Unmarshal", "json.UnmarshalRead", "jsontext.NewDecoder", "mime.ParseMediaType",
	"strconv.Atoi", "time.Parse", "url.Parse", "url.ParseQuery", "url.PathUnescape", "uuid.Parse",
}

const (
	corpusHead = "go test fuzz v1\n"
	maxSeed    = 4 << 10 // bytes: a seed is there to be read
)

func TestEachParserHasAFuzzTargetAndEachTargetACorpus(t *testing.T) {
	t.Parallel()
	root := os.DirFS(moduleRoot(t))
	sources, err := parseTree(root)
	if err != nil {
		t.Fatal(err)
	}
	report(t, parserBreaches(sources, parsers))
	report(t, corpusBreaches(root, sources))
}

// parserBreaches compares the table with the tree, both ways.
func parserBreaches(sources []source, table map[string]string) []breach {
	var breaches []breach
	missing, targets := maps.Clone(table), map[string]bool{}
	for _, file := range sources {
		bound := matchesAny(fuzzed, file.dir) && !file.generated
		for _, declaration := range file.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := file.dir + "." + function.Name.Name
			if file.test {
				targets[name] = strings.HasPrefix(function.Name.Name, "Fuzz")
				continue
			}
			delete(missing, name)
			if call := decoderIn(function); bound && call != "" && table[name] == "" {
				breaches = append(breaches, breach{file.at(function.Name),
					fmt.Sprintf("func %s calls %s: fuzz it, and say by which target in the table of test/archtest/fuzz_test.go",
						function.Name.Name, call)})
			}
		}
	}
	for name, target := range table {
		if dir := name[:strings.LastIndexByte(name, '.')]; !strings.HasPrefix(target, "- ") &&
			!targets[dir+"."+target] {
			breaches = append(breaches, breach{name, "its fuzz target " + target + " is not there"})
		}
	}
	for name := range missing {
		breaches = append(breaches, breach{name, "is in the table of parsers, and nowhere else"})
	}
	return breaches
}

// decoderIn is the first call in a function by which it is known to parse, or "".
func decoderIn(function *ast.FuncDecl) (found string) {
	ast.Inspect(function, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := "." + selector.Sel.Name
		if owner, ok := selector.X.(*ast.Ident); ok {
			name = owner.Name + name
		}
		method := strings.HasSuffix(name, ".DecodeString") || strings.HasSuffix(name, ".UnmarshalText")
		if found == "" && (method || strings.HasPrefix(name, "strconv.Parse") || slices.Contains(decoders, name)) {
			found = name
		}
		return true
	})
	return found
}

// corpusBreaches finds targets without seeds, seeds without a target, and seeds that go test would not read or nobody
// would.
func corpusBreaches(root fs.FS, sources []source) []breach {
	var breaches []breach
	known := map[string]bool{}
	for _, file := range sources {
		for _, declaration := range file.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || !file.test || function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Fuzz") {
				continue
			}
			dir := path.Join(file.dir, "testdata/fuzz", function.Name.Name)
			known[dir] = true
			seeds, err := fs.ReadDir(root, dir)
			if err != nil || len(seeds) == 0 {
				breaches = append(breaches, breach{file.at(function.Name), "has no seeds in " + dir})
			}
			for _, seed := range seeds {
				name := path.Join(dir, seed.Name())
				content, err := fs.ReadFile(root, name)
				if err != nil || !strings.HasPrefix(string(content), corpusHead) || len(content) > maxSeed {
					breaches = append(breaches, breach{name,
						fmt.Sprintf("is no seed: %d bytes, of %d at most, that begin with %q", len(content), maxSeed,
							corpusHead)})
				}
			}
		}
	}
	for _, file := range sources {
		orphans, _ := fs.Glob(root, path.Join(file.dir, "testdata/fuzz/*"))
		for _, dir := range orphans {
			if !known[dir] {
				known[dir] = true
				breaches = append(breaches, breach{dir, "are seeds of a target that is not there"})
			}
		}
	}
	return breaches
}

func TestEachRuleOfFuzzingCanFail(t *testing.T) {
	t.Parallel()
	const decoding, target = "import \"x/json\"\nfunc read() { json.Unmarshal(nil, nil) }", "func FuzzRead(f *testing.F) {}"
	tree := func(product, test string) []source {
		return parse(t, map[string]string{"internal/gateway/a.go": product, "internal/gateway/a_test.go": test})
	}
	table := map[string]string{"internal/gateway.read": "FuzzRead"}
	wantNone(t, parserBreaches(tree(decoding, target), table))
	wantNone(t, parserBreaches(tree(decoding, ""), map[string]string{"internal/gateway.read": "- a reason"}))
	wantBreach(t, parserBreaches(tree(decoding, target), nil), "internal/gateway/a.go:3")
	wantBreach(t, parserBreaches(tree(decoding, ""), table), "internal/gateway.read")
	wantBreach(t, parserBreaches(tree("", target), table), "internal/gateway.read")

	const seeds = "internal/gateway/testdata/fuzz/FuzzRead"
	for content, where := range map[string]string{
		corpusHead + "string(\"\")\n": "", "string(\"\")\n": seeds + "/empty", corpusHead +
			strings.Repeat("#", maxSeed): seeds + "/empty",
	} {
		breaches := corpusBreaches(fstest.MapFS{seeds + "/empty": {Data: []byte(content)}}, tree("", target))
		if where == "" {
			wantNone(t, breaches)
			continue
		}
		wantBreach(t, breaches, where)
	}
	wantBreach(t, corpusBreaches(fstest.MapFS{}, tree("", target)), "internal/gateway/a_test.go:2")
	wantBreach(t, corpusBreaches(fstest.MapFS{seeds + "/empty": {Data: []byte(corpusHead)}}, tree("", "")), seeds)
}
