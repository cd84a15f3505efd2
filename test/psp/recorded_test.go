package psp

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

var recordOf = flag.String("record", "", "the dialect of a recording to make: of SANDBOX_URL, or of our own mock")

// take is a row while it is recorded or played.
type take struct {
	recording

	t      *testing.T
	psp    gateway.PSP
	row    string
	lose   func(step string)
	events [][]byte
}

// recordedRows need no ledger and no fault of the provider: a sandbox has neither. Each has keys of its own. None is of
// a statement: that of the day has no end yet, and that of the day before has nothing of the recording.
func recordedRows() []struct {
	name string
	play func(*take)
} {
	return []struct {
		name string
		play func(*take)
	}{
		{"charge", (*take).charged},
		{"charge declined", (*take).declined},
		{"charge of another amount", (*take).otherAmount},
		{"charge whose answer is lost", (*take).lostAnswer},
		{"charge that was never sent", (*take).neverSent},
		{"refund", (*take).refunded},
		{"list", (*take).listed},
		{"event", (*take).told},
	}
}

// A charge succeeds, sent again it is the same charge, and it is found.
func (k *take) charged() {
	ch, id := k.succeeds("", amount)
	if o, ok := k.psp.Charge(k.t.Context(), ch).(gateway.Succeeded); !ok || o.ID != id {
		k.t.Errorf("sent again: %+v, want %s", o, id)
	}
	k.finds(ch, id)
}

func (k *take) declined() {
	ch := k.request("", amount)
	ch.PaymentMethod = k.about.Declined
	stored, o := k.perform(ch)
	first, ok := o.(gateway.Declined)
	if !ok || first.Code == "" {
		k.t.Fatalf("%s is %+v", ch.PaymentMethod, o)
	}
	if again := k.psp.Charge(k.t.Context(), stored); again != o {
		k.t.Errorf("sent again: %+v, want %+v", again, o)
	}
}

// The key belongs to the first amount. That the provider refuses the other one tells nothing of the first request, and
// an answer that is lost is no refusal.
func (k *take) otherAmount() {
	ch, id := k.succeeds("", amount)
	other := ch
	other.AmountMinor++
	if _, o := k.perform(other); !refusesKey(o) {
		k.t.Errorf("another amount under the same key: %+v", o)
	}
	k.finds(ch, id)
}

// refusesKey reports whether the provider has said that it knows the key with another request.
func refusesKey(o gateway.Outcome) bool {
	refused, unknown := o.(gateway.Indeterminate)
	return unknown && refused.Contradiction && len(refused.Evidence) > 0
}

// The charge is executed and the answer is lost. So the client may ask once more, or know nothing; a lookup finds it.
func (k *take) lostAnswer() {
	k.lose(k.dialect.Entries.Charge)
	ch, o := k.perform(k.request("", amount))
	unknown, ok := o.(gateway.Indeterminate)
	if outcomeWords(o) != "succeeded" && (!ok || unknown.Contradiction) {
		k.t.Fatalf("without an answer: %+v", o)
	}
	k.finds(ch, "")
}

func (k *take) neverSent() {
	if _, ok := k.psp.Lookup(k.t.Context(), k.request("", amount), gateway.EndUnsent).(gateway.NotFound); !ok {
		k.t.Error("a charge that was never sent is found")
	}
}

func (k *take) refunded() {
	ch, id := k.succeeds("", amount)
	r := gateway.Refund{Account: ch.Account, Key: ch.Key + "-back", Attempt: 1, Reference: ch.Reference + "_back",
		ChargeID: id, AmountMinor: amount / 2, Currency: ch.Currency}
	done, ok := k.psp.Refund(k.t.Context(), r).(gateway.Succeeded)
	if !ok {
		k.t.Fatal("the refund has not succeeded")
	}
	if again, ok := k.psp.Refund(k.t.Context(), r).(gateway.Succeeded); !ok || again.ID != done.ID {
		k.t.Errorf("sent again: %+v, want %s", again, done.ID)
	}
	k.finds(r, done.ID)
}

// The list has what was charged, oldest first.
func (k *take) listed() {
	var want, got []string
	for _, which := range []string{"-a", "-b"} {
		_, id := k.succeeds(which, amount)
		want = append(want, id)
	}
	for cursor := ""; ; {
		page, err := k.psp.List(k.t.Context(), gateway.ChargeObject, k.about.Account, k.about.At.Add(-time.Minute),
			cursor)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, r := range page.Records {
			if slices.Contains(want, r.ID) {
				got = append(got, r.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("listed are %v, want %v", got, want)
	}
}

// Each event is read, or ignored by its type, and those that move money are of this recording.
func (k *take) told() {
	for _, fault := range notTold(k.psp, k.about.Stamp, k.events) {
		k.t.Error(fault)
	}
}

func notTold(psp gateway.PSP, stamp string, events [][]byte) (faults []string) {
	moved := 0
	for _, body := range events {
		e, err := psp.ParseEvent(body)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%v: %s", err, body))
		}
		if _, ok := e.(gateway.Moved); !ok {
			continue
		}
		if moved++; !strings.Contains(string(body), stamp) {
			faults = append(faults, fmt.Sprintf("an event of another recording than %s: %s", stamp, body))
		}
	}
	if moved == 0 {
		faults = append(faults, fmt.Sprintf("none of %d events has moved money", len(events)))
	}
	return faults
}

func (k *take) request(which string, minor int64) gateway.Charge {
	name := strings.ReplaceAll(k.row, " ", "-") + which
	return gateway.Charge{Account: k.about.Account, Key: k.about.Stamp + "-" + name, Attempt: 1,
		Reference: "pay_" + k.about.Stamp + "_" + name, AmountMinor: minor, Currency: "USD",
		PaymentMethod: k.about.OK}
}

func (k *take) perform(ch gateway.Charge) (gateway.Charge, gateway.Outcome) {
	id, refused := k.psp.Prepare(k.t.Context(), ch)
	if refused != nil {
		return ch, refused
	}
	ch.ObjectID = id
	return ch, k.psp.Charge(k.t.Context(), ch)
}

func (k *take) succeeds(which string, minor int64) (gateway.Charge, string) {
	k.t.Helper()
	ch, o := k.perform(k.request(which, minor))
	done, ok := o.(gateway.Succeeded)
	if !ok {
		k.t.Fatalf("%s has not succeeded: %+v", ch.Key, o)
	}
	return ch, done.ID
}

// finds looks a request up that has succeeded, with the id if that is known.
func (k *take) finds(r gateway.Request, id string) {
	k.t.Helper()
	found, ok := k.psp.Lookup(k.t.Context(), r, gateway.EndUnsent).(gateway.Found)
	if !ok || len(found.Records) != 1 {
		k.t.Fatalf("not found, or not once: %+v", found)
	}
	if o, ok := r.Judge(found.Records[0]).(gateway.Succeeded); !ok || id != "" && o.ID != id {
		k.t.Errorf("found as %+v, want %s", o, id)
	}
}

// TestRecordings plays each recording in place of the mock. A row that a recording has no file for is skipped by name.
func TestRecordings(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob(filepath.Join(recordings, "*", "about.json"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there is no recording: %v", err)
	}
	for _, name := range all {
		of, err := readJSON[about](name)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(dialects(), func(d *Dialect) bool { return d.Name == of.Dialect })
		if i < 0 {
			t.Fatalf("%s is of a dialect that there is not: %q", name, of.Dialect)
		}
		r := recording{dialects()[i], filepath.Dir(name), of}
		for _, row := range recordedRows() {
			t.Run(filepath.Base(r.folder)+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				pairs, err := readJSON[[]pair](r.file(row.name))
				if errors.Is(err, os.ErrNotExist) {
					t.Skip("not recorded")
				}
				if err != nil {
					t.Fatal(err)
				}
				r.play(t, row.name, row.play, pairs)
			})
		}
	}
}

// The row event has the bodies that the provider has sent, and no answers.
const eventRow = "event"

func (r recording) play(t *testing.T, row string, play func(*take), pairs []pair) {
	t.Helper()
	k := &take{recording: r, t: t, row: row, lose: func(string) {}}
	p := &player{wrong: t.Errorf}
	for _, x := range pairs {
		if row == eventRow {
			k.events = append(k.events, []byte(x.Request.Body))
		} else {
			p.pairs = append(p.pairs, x)
		}
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	k.psp = r.client(t, server.URL)
	play(k)
	p.ended()
}

// TestRecord makes a recording, if -record names the dialect. docs/providers.md says how.
func TestRecord(t *testing.T) {
	i := slices.IndexFunc(dialects(), func(d *Dialect) bool { return d.Name == *recordOf })
	if i < 0 {
		t.Skip("-record names no dialect, so nothing is recorded")
	}
	d := dialects()[i]
	env := func(name, otherwise string) string { return cmp.Or(os.Getenv(name), otherwise) }
	w := setup(t, d)
	now := time.Now().UTC().Truncate(time.Second)
	r := recording{d, filepath.Join(recordings, d.Name), about{Dialect: d.Name, From: "a sandbox", At: now,
		Stamp: env("SANDBOX_STAMP", now.Format("20060102t150405")), Account: env("SANDBOX_ACCOUNT", d.Account+"acme"),
		OK: env("SANDBOX_OK", "pm_ok"), Declined: env("SANDBOX_DECLINED", "pm_declined")}}
	url, secret := os.Getenv("SANDBOX_URL"), env("SANDBOX_SECRET", apiSecret)
	if url == "" {
		url, r.about.From, r.about.At = w.wire.url(), "our own mock: no sandbox was at hand", w.clock.now()
	}
	if err := emptied(r.folder); err != nil {
		t.Fatal(err)
	}
	k := &recorder{target: url, secret: secret, stepOf: d.StepOf}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	client := r.client(t, server.URL)
	write := func(name string, value any) {
		if err := writeJSON(name, value, secret, apiSecret); err != nil {
			t.Error(err)
		}
	}
	for _, row := range recordedRows() {
		t.Run(row.name, func(t *testing.T) {
			if row.name == eventRow {
				if events := eventPairs(t, w.received()); len(events) > 0 { // a sandbox's are put there by hand
					write(r.file(row.name), events)
				}
				return
			}
			k.begin()
			row.play(&take{recording: r, t: t, psp: client, row: row.name, lose: k.lose})
			if !t.Failed() { // what does not hold is no proof, and stays "not recorded"
				write(r.file(row.name), k.pairs)
			}
		})
	}
	write(filepath.Join(r.folder, "about.json"), r.about)
}

// emptied makes a folder without the files of the recording before: its keys were other ones, and perhaps its provider.
func emptied(folder string) error {
	return errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700))
}

// eventPairs are one event of each type.
func eventPairs(t *testing.T, all []mail) (pairs []pair) {
	t.Helper()
	had := map[string]bool{}
	for _, m := range all {
		kind := read[struct {
			Type string `json:"type"`
		}](t, string(m.body)).Type
		if !had[kind] {
			had[kind] = true
			pairs = append(pairs, pair{Request: asked{Method: "POST", Path: "/",
				Body: withoutSecrets(string(m.body))}})
		}
	}
	return pairs
}

// A client that asks something else than was recorded, or less, is held to nothing by the answers.
func TestPlayerTakesNoOtherRequest(t *testing.T) {
	t.Parallel()
	recorded := pair{Request: asked{Method: "GET", Path: "/v1/charges?limit=1", Headers: map[string]string{}},
		Answer: answered{Status: 200, Body: "{}"}}
	for path, want := range map[string]string{
		"/v1/charges?limit=1": "", "/v1/charges?limit=2": "the client asks\n", "": "has not asked",
	} {
		said := ""
		p := &player{pairs: []pair{recorded}, wrong: func(f string, args ...any) { said += fmt.Sprintf(f, args...) }}
		if path != "" {
			p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
		}
		p.ended()
		if (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", path, said, want)
		}
	}
}

// A recording of a sandbox whose events nobody has put there must not pass with those of our own mock.
func TestRecordingHasNothingOfTheOneBefore(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "recording")
	for range 2 {
		if err := emptied(folder); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
			t.Errorf("%d files are left, %v", len(files), err)
		}
		if err := writeJSON(filepath.Join(folder, "event.json"), []pair{}); err != nil {
			t.Fatal(err)
		}
	}
	w := setup(t, dialects()[0])
	w.charge(aCharge(w.dialect))
	var bodies [][]byte
	for _, m := range w.received() {
		bodies = append(bodies, m.body)
	}
	for stamp, want := range map[string]int{key: 0, "20200101t000000": len(bodies)} {
		if faults := notTold(w.client, stamp, bodies); len(faults) != want {
			t.Errorf("stamp %q: %v, want %d faults", stamp, faults, want)
		}
	}
}

func TestOnlyARefusalOfTheKeyPassesForOne(t *testing.T) {
	t.Parallel()
	for _, o := range []gateway.Outcome{nil, gateway.Succeeded{ID: "pi_1"}, gateway.Declined{Code: "do_not_honor"},
		gateway.NotExecuted{Reason: "PSP answered 409"}, gateway.Indeterminate{Reason: "connection lost"},
		gateway.Indeterminate{Reason: "connection lost", Contradiction: true}} {
		if refusesKey(o) {
			t.Errorf("%+v passes", o)
		}
	}
	if !refusesKey(gateway.Indeterminate{Reason: "PSP answered 400", Contradiction: true, Evidence: []byte("{}")}) {
		t.Error("a refusal does not pass")
	}
}

func TestRecordingHasNoSecret(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "row.json")
	pairs := []pair{{Answer: answered{Body: `{"key":"sk_test_of_ours"}`}}}
	if err := writeJSON(name, pairs, "", "sk_test_of_ours"); err == nil {
		t.Error("a secret is recorded")
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file was written")
	}
	if err := writeJSON(name, pairs, "sk_test_of_others"); err != nil {
		t.Error(err)
	}
	if got := withoutSecrets(`{"id":"pi_1","client_secret": "pi_1_x","clientSecret":"y"}`); got !=
		`{"id":"pi_1","client_secret": "removed","clientSecret":"removed"}` {
		t.Errorf("what others must not have is recorded: %s", got)
	}
}
