package mockpsp

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// killed returns what a kill -9 at this moment would leave behind: the files as they are.
func killed(t *testing.T, path string) string {
	t.Helper()
	left := ledgerPath(t)
	for _, suffix := range []string{"", webhooksSuffix} {
		content, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

func TestUndeliveredWebhooksOutliveAKill(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, receive204)
	p := setup(t, onFile(path, toldTo(r, func(c *Config) {
		c.HangLimit, c.WebhookSchedule = time.Hour,
			[]time.Duration{time.Hour}
	})))
	p.charge("key-delivered", "pm_ok")
	r.next()
	p.awaitWebhooks(0, 1, 0, 0)
	r.answers(func(arrival) int { return http.StatusServiceUnavailable })
	p.charge("key-failed", "pm_ok")
	first := r.next()
	_, cancel := p.chargeInBackground("pm_timeout_charged") // key-1, whose call has not ended
	defer cancel()
	p.awaitFault("key-1", "pm_timeout_charged")
	p.awaitWebhooks(2, 1, 0, 0)

	r.answers(receive204)
	left := killed(t, path)
	again := setup(t, onFile(left, toldTo(r)))
	got := map[string]arrival{}
	for range 2 {
		came := r.next()
		got[came.event(t).Data.IdempotencyKey] = came
	}
	if got["key-failed"].id() != first.id() || got["key-failed"].body != first.body || got["key-1"].body == "" {
		t.Errorf("after the restart came %+v", got)
	}
	again.awaitWebhooks(0, 3, 0, 0)
	again.stop()

	again = setup(t, onFile(left, toldTo(r)))
	if view := again.webhooks(); view.Pending != 0 || view.Delivered != 3 {
		t.Errorf("sent once more: %+v", view)
	}
}

func TestWebhookThatIsStillDueWhenThePSPStopsIsSentAfterTheNextStart(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, receive204)
	p := setup(t, onFile(path, toldTo(r, func(c *Config) { c.WebhookDelay = time.Hour })))
	p.charge("key-1", "pm_ok")
	p.stop()
	setup(t, onFile(path, toldTo(r))).awaitWebhooks(0, 1, 0, 0)
}

// A try that our own stop cuts short is no failed try.
func TestWebhookCutShortIsNotGivenUp(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, func(a arrival) int {
		<-a.gone
		return http.StatusOK
	})
	oneTry := func(c *Config) { c.WebhookTimeout, c.WebhookSchedule = time.Hour, nil }
	p := setup(t, onFile(path, toldTo(r, oneTry)))
	p.charge("key-1", "pm_ok")
	r.next()
	p.stop()
	r.answers(receive204)
	setup(t, onFile(path, toldTo(r, oneTry))).awaitWebhooks(0, 1, 0, 0)
}

func TestGivenUpAndDroppedWebhooksStaySo(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, func(arrival) int { return http.StatusInternalServerError })
	p := setup(t, onFile(path, toldTo(r)))
	p.charge("key-1", "pm_ok")
	p.awaitWebhooks(0, 0, 1, 0)
	p.putFaults(`{"webhooks":{"drop":1}}`)
	p.charge("key-2", "pm_ok")
	p.awaitWebhooks(0, 0, 1, 1)
	p.stop()
	view := setup(t, onFile(path, toldTo(r))).webhooks()
	if view.Pending != 0 || view.GivenUp != 1 || view.Dropped != 1 {
		t.Errorf("webhooks: %+v", view)
	}
}

func TestTornLineOfTheWebhooksFileSendsAgain(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, receive204)
	p := setup(t, onFile(path, toldTo(r)))
	p.charge("key-1", "pm_ok")
	r.next()
	p.awaitWebhooks(0, 1, 0, 0)
	p.stop()
	line, err := os.ReadFile(path + webhooksSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+webhooksSuffix, line[:len(line)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	p = setup(t, onFile(path, toldTo(r)))
	r.next()
	p.awaitWebhooks(0, 1, 0, 0)
}

func TestDamagedWebhooksFileIsRefusedAndLetsTheLedgerGo(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, receive204)
	for _, damage := range []string{"x\n{}\n", `{"entryId":"ch_1","end":"lost"}` + "\n"} {
		if err := os.WriteFile(path+webhooksSuffix, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		config := DefaultConfig()
		onFile(path, toldTo(r))(&config)
		if psp, err := New(config); err == nil || !strings.Contains(err.Error(), webhooksSuffix) {
			t.Errorf("%q: %v %v", damage, psp, err)
		}
	}
	if err := os.Remove(path + webhooksSuffix); err != nil {
		t.Fatal(err)
	}
	setup(t, onFile(path, toldTo(r)))
}

func TestFailedNoteIsLoggedOnceAndSentAgainAfterARestart(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	r := newReceiver(t, receive204)
	var log bytes.Buffer
	p := setup(t, onFile(path, toldTo(r, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })))
	_ = p.psp.webhooks.ends.file.file.Close() // nothing is noted yet
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_ok")
	p.awaitWebhooks(0, 2, 0, 0)
	p.stop()
	if got := strings.Count(log.String(), "could not be noted"); got != 1 {
		t.Errorf("logged %d times: %s", got, log.String())
	}
	setup(t, onFile(path, toldTo(r))).awaitWebhooks(0, 2, 0, 0)
}
