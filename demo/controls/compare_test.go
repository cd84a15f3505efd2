package controls

import (
	"strings"
	"testing"
	"time"
)

// A server is killed while the PSP works, by whomever. The client of the other copy is told first that it is in
// progress.
func TestComparedServerIsDrawnAsSeenFromOutside(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	c := &contestant{Name: "a server", keys: []string{"k"}}
	first, second := c.sends(at(0)), c.sends(at(0))
	second(at(0.1), answer{Status: 409})
	c.observe(Process{Serves: true, Since: at(-9)}, paymentBooks{})
	c.observe(Process{Since: at(1)}, paymentBooks{})
	first(at(1.5), answer{Lost: true})
	c.observe(Process{Serves: true, Since: at(2)}, paymentBooks{
		read:    true,
		calls:   []call{{Method: "POST", At: at(0.2), Outcome: "answered 201"}, {Method: "GET", At: at(4)}},
		charges: []charge{{Status: "succeeded", CreatedAt: at(3)}},
		tries:   []webhookTry{{At: at(3.5), Status: 503}, {At: at(3.6)}, {At: at(5), Status: 204}},
	})
	c.observe(Process{Serves: true, Since: at(2)}, paymentBooks{})
	if v := c.view(); v.Verdict != "The client was told 409, then nothing." || v.Charged() != "Charged once" {
		t.Errorf("%s %s", v.Charged(), v.Verdict)
	}
	var got []string
	for _, s := range c.diagram().Steps {
		step := s.From.String() + ">" + s.To.String() + " " + s.Label
		if s.Lost {
			step = "!" + step
		}
		if s.Unusable {
			step = "?" + step
		}
		got = append(got, step)
	}
	const want = "client>API POST 12.00 USD|client>API the same request again|API>client 409: in progress|" +
		"API>PSP charge|API>API killed|client>client no answer|API>API started again|PSP>PSP charged: 12.00 USD|" +
		"!PSP>API 201|?PSP>API webhook: charged|!PSP>API webhook: charged|API>PSP look up the key|" +
		"PSP>API webhook: charged"
	if all := strings.Join(got, "|"); all != want {
		t.Errorf("\n got %s\nwant %s", all, want)
	}
}
