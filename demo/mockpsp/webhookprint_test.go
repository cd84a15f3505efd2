package mockpsp

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// The command is run by a shell, and the receiver gets what the PSP itself would send.
func TestPrintedWebhookIsTheOneThatIsSent(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	charge := p.chargeAs("acme", "key-1", `it's $HOME \u0027`, "pm_ok").entry(t)
	sent := r.next()
	printed := p.get("/_webhooks/" + charge.ID)
	if printed.status != http.StatusOK || !strings.HasPrefix(printed.body, "curl -i 'http://") {
		t.Fatalf("%d %s", printed.status, printed.body)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-euc", printed.body).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "204") {
		t.Fatalf("%v\n%s\n%s", err, printed.body, out)
	}
	if again := r.next(); again.id() != sent.id() || again.body != sent.body || again.verify(t) != nil {
		t.Errorf("sent %+v\nthe PSP sends %+v", again, sent)
	}
}

func TestWebhookThatCannotBePrintedIsRefused(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.get("/_webhooks/ch_none").want(t, http.StatusNotFound, "entry_not_found")
	p.get("/_webhooks/"+p.charge("key-1", "pm_ok").entry(t).ID).want(t, http.StatusConflict, "webhooks_off")
}
