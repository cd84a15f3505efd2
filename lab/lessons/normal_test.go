package lessons

import (
	"regexp"
	"strings"
	"testing"
)

// normal takes out what differs between two runs.
func normal(text string) string {
	for _, differing := range []struct{ pattern, by string }{
		{`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`, "<time>"},
		{`[0-9]{4}-[0-9]{2}-[0-9]{2}`, "<date>"},
		{`\b[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?`, "<time>"},
		{`\b([0-9]+:)?[0-9]+\.[0-9]{3}( s)?\b|\b[0-9]+:[0-9]{2}:[0-9]{2}\b`, "<time>"},
		{`\+[0-9]+(:[0-9]{2})*( s)?\b`, "+<time>"},
		{`\b(pay|ch|re|rf|evt|req|whk|msg)_[0-9A-Za-z]{16,}(_[0-9]{16})?`, "${1}_<id>"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "<uuid>"},
		{`-[0-9]{10}-k[0-9a-f]{4}`, "-<key>"},
		{`\bdemo-[a-z2-7]{12}\b`, "demo-<key>"},
		{`\b(process|pid) [0-9]+`, "${1} <pid>"},
		{`\b[0-9]+(\.[0-9]+)? ?(ms|milliseconds)\b`, "<ms>"},
		{`\b([Aa]fter|[Ff]or|[Ww]ithin) [0-9]+(\.[0-9]+)? s\b`, "${1} <s>"},
		{`(?m) +[0-9]+(\.[0-9]+)? s(  |$)`, " <s>${2}"},
	} {
		text = regexp.MustCompile(differing.pattern).ReplaceAllString(text, differing.by)
	}
	return regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(strings.TrimRight(text, "\n"), "")
}

func TestOnlyWhatDiffersIsNotCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"201 succeeded", "201 succeeded\n", true},
		{"201 succeeded", "201 succeeded, replayed", false},
		{"charged 1 time: 5.00 USD", "charged 2 times: 5.00 USD, 5.00 USD", false},
		{"ch_ad3gnump3636nkiao64wtudpu3 succeeded 5.00 USD", "ch_xmcdg4qowqitxhxioabjkeufo4 succeeded 5.00 USD", true},
		{"ch_ad3gnump3636nkiao64wtudpu3 succeeded 5.00 USD", "ch_xmcdg4qowqitxhxioabjkeufo4 succeeded 5.01 USD", false},
		{"pay_01m857njavfata3cxzgvwd64rb", "ch_ad3gnump3636nkiao64wtudpu3", false},
		{"evt_01m8m7js78e2m8s6qtzph1kpqy_1795975384548919", "evt_01m8m7kbvqe52s60hjhk1hv06v_1795975412019484", true},
		{"POST /payments, key lost-1795414220-k3f0a", "POST /payments, key lost-1795500000-k0001", true},
		{"POST /payments, key lost-1795414220-k3f0a", "POST /payments, key found-1795414220-k3f0a", false},
		{"06:10:20.148  |---->|", "23:59:59.001  |---->|", true},
		{"06:10:20.148  |---->|", "06:10:20.148  |x----|", false},
		{">5.002 s</text>", ">1:05.000</text>", true},
		{">5.002 s</text>", ">1:00:05</text>", true},
		{"reserved, attempt 2, lease until +57 s", "reserved, attempt 2, lease until +1:02", true},
		{"reserved, attempt 2, lease until +57 s", "reserved, attempt 1, lease until +57 s", false},
		{"the API runs since 22:08:41.548, process 6471", "the API runs since 10:00:00.000, process 1", true},
		{"the API runs since 22:08:41.548, process 6471", "the API away since 22:08:41.548, process 6471", false},
		{"  1/2    0.8 s  payment/3b/kill   ok", "  1/2   12.8 s  payment/3b/kill   ok", true},
		{"seed 7: 2 cells, 1 failed, 9 s", "seed 7: 2 cells, 1 failed, 13 s", true},
		{"seed 7: 2 cells, 1 failed, 9 s", "seed 7: 2 cells, 2 failed, 9 s", false},
		{"attempt 1, generation 1", "attempt 2, generation 1", false},
		{"202 processing; try again after 2 s", "202 processing; try again after 1 s", true},
	} {
		if same := normal(c.one) == normal(c.other); same != c.same {
			t.Errorf("same is %t of\n%s\n%s", same, c.one, c.other)
		}
	}
}
