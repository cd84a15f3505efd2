package windows

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/docs"
)

func TestWordsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, w := range Stripe().Windows() {
		if words := w.Words(); words.Happened == "" || words.Lost == "" || words.FoundBy == "" {
			t.Errorf("docs/crash_windows.md has no row for window %s: %+v", w.ID, words)
		}
	}
	w, _ := Native().ByID("3b")
	if got := w.Words(); got.Lost != "The answer. The customer may have been charged." {
		t.Errorf("window 3b: %+v", got)
	}
}

func TestGroupsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, g := range Stripe().Groups() {
		_, section, found := strings.Cut(docs.CrashWindows, "\n## "+g.Title)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, w := range g.Windows {
			if number := strings.TrimRight(w.ID, "abc"); !found || !strings.Contains(section, "\n| "+number+" | ") {
				t.Errorf("docs/crash_windows.md has no section %q with window %s", g.Title, w.ID)
			}
		}
	}
}

func TestTokensAreThoseOfTheMockPSP(t *testing.T) {
	t.Parallel()
	for _, w := range Stripe().Windows() {
		if !slices.ContainsFunc(mockpsp.Tokens(), func(token mockpsp.Token) bool { return token.Name == w.Token }) {
			t.Errorf("window %s: the mock PSP has no token %s", w.ID, w.Token)
		}
	}
}

func TestEachWindowCanGoOnAndEachActionEndsSomeHold(t *testing.T) {
	t.Parallel()
	seen := map[Action]bool{}
	for _, w := range Stripe().Windows() {
		if choices := w.Choices(); choices[0].Action != GoOn {
			t.Errorf("window %s begins with %s", w.ID, choices[0].Action)
		}
		for _, c := range w.Choices() {
			seen[c.Action] = true
		}
		if lose := w.allows(LoseAcknowledgement); lose == w.allows(Cut) {
			t.Errorf("window %s: a lost acknowledgement and a cut connection are the same thing after a commit", w.ID)
		}
	}
	for _, a := range []Action{GoOn, Kill, Pause, Cut, LoseAcknowledgement, PSPFails} {
		if !seen[a] {
			t.Errorf("%s can be chosen nowhere", a)
		}
	}
}

// stageAt3b is a stage, without a database, at which a payment is held at 3b.
func stageAt3b(t *testing.T, lease func(context.Context, string) (Lease, error),
	end func(context.Context, string, Lease) error,
) (s *Stage, notes <-chan string) {
	t.Helper()
	psp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(psp.Close)
	nowhere := "postgres://payonce@127.0.0.1:1/payonce"
	s, err := Open(Config{
		DatabaseURLs: map[Process]string{API: nowhere, Reconciler: nowhere}, PSPAddress: psp.Listener.Addr().String(),
		Dialect: Native(), Limit: time.Minute, PSPTimeout: time.Minute, Lease: lease, EndLease: end, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	said := make(chan string, 9)
	s.Attach(map[Process]Handle{API: {Kill: func() error { s.Ended(API); return nil }}},
		func(_, what string) { said <- what })
	w, _ := Native().ByID("3b")
	if err := s.Arm(w, "k"); err != nil {
		t.Fatal(err)
	}
	url := s.PSPURL(API) + "/v1/charges"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	go func() {
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}()
	if got := <-said; !strings.HasPrefix(got, "held: ") {
		t.Fatalf("it says %q", got)
	}
	return s, said
}

// The database is away when the lease is to be taken back, and had done what it did not answer. So the lease is taken
// back until that succeeds, and to the end that it had.
func TestLeaseIsTakenBackUntilThatSucceeds(t *testing.T) {
	t.Parallel()
	own := Lease{"l", time.Date(2026, 11, 23, 14, 44, 40, 0, time.UTC)}
	var ends []time.Time
	s, notes := stageAt3b(t, func(context.Context, string) (Lease, error) { return own, nil },
		func(_ context.Context, _ string, l Lease) error {
			if ends = append(ends, l.End); l.ID == own.ID && len(ends) == 4 {
				return nil
			}
			return errors.New("dial /home/somebody/.s.PGSQL.5432: no such file")
		})
	if got := <-notes; got != "the lease may end meanwhile: the database has not answered" {
		t.Errorf("it says %q", got)
	}
	if err := s.Do(Kill); err != nil {
		t.Fatal(err)
	}
	if len(ends) != 4 || !ends[0].Equal(own.End.Add(time.Minute)) || ends[3].Before(own.End) ||
		!ends[3].Before(ends[0]) {
		t.Errorf("the lease, until %s, was to end at %s", own.End, ends)
	}
	if how := s.State().Ended.How; how != "the API was killed" {
		t.Errorf("it says: %s", how)
	}
}

// The sentence has the time, and no path of the machine.
func TestLeaseThatCannotBeTakenBackIsSaidToBeLonger(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits until the stage gives up")
	}
	own := Lease{"l", time.Date(2026, 11, 23, 14, 44, 40, 0, time.UTC)}
	s, notes := stageAt3b(t, func(context.Context, string) (Lease, error) { return own, nil },
		func(_ context.Context, _ string, l Lease) error {
			if l.End.Equal(own.End.Add(time.Minute)) {
				return nil
			}
			return errors.New("dial /home/somebody/.s.PGSQL.5432: no such file")
		})
	if err := s.Do(Kill); err != nil {
		t.Fatal(err)
	}
	want := "the lease may be longer than the hold was, until 14:45:40 (UTC): the database has not answered"
	if got := <-notes; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// The database may take its time to lend, and the process may be killed meanwhile.
func TestProcessThatEndsWhileTheLeaseIsLentEndsTheHold(t *testing.T) {
	t.Parallel()
	lends, ended := make(chan struct{}), make(chan struct{})
	s, notes := stageAt3b(t, func(context.Context, string) (Lease, error) {
		close(lends)
		<-ended
		return Lease{}, nil
	}, nil)
	<-lends
	s.Ended(API)
	close(ended)
	if got := <-notes; got != "the API has ended, and what was held is lost with it" {
		t.Errorf("it says %q", got)
	}
}

func TestPauseThatWasNoneIsNotSaidToHaveTakenFiveSeconds(t *testing.T) {
	t.Parallel()
	for want, pauses := range map[string]error{
		"the API could not be paused, and the payment went on": errors.New("it does not run at the moment"),
		"the API was paused, and has ended in the pause":       nil,
	} {
		s, _ := stageAt3b(t, func(context.Context, string) (Lease, error) { return Lease{}, nil }, nil)
		s.handles[API] = Handle{Pause: func() error { return pauses }, Resume: func() error { return nil }}
		if err := s.Do(Pause); !errors.Is(err, pauses) {
			t.Errorf("paused: %v, want %v", err, pauses)
		}
		s.Ended(API)
		s.running.Wait()
		if how := s.State().Ended.How; how != want {
			t.Errorf("it says %q, want %q", how, want)
		}
	}
}

// A socket's path is bounded, and what a killed demo has left is of no use.
func TestSocketsOfAKilledDemoAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pgproxy-1", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "cluster")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := socketParent(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "cluster" {
		t.Errorf("left are %v: %v", left, err)
	}
	if parent, err := socketParent("/" + strings.Repeat("x", 90)); err != nil || parent != "" {
		t.Errorf("a long path: %q, %v", parent, err)
	}
}
