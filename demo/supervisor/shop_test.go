package supervisor

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"payonce/test/pgtest"
	"payonce/test/wait"
)

var shopRows = regexp.MustCompile(`(?s)<tr id="order-.*?</tr>`)

// shopRow is what the shop's page says of its newest order, once there are so many orders and it has this text.
func shopRow(t *testing.T, d demo, orders int, has string) (row string) {
	t.Helper()
	wait.Until(t, "the shop says "+has, func() bool {
		rows := shopRows.FindAllString(ask(t, http.MethodGet, d.operator, "/shop", "", nil).body, -1)
		if len(rows) == orders {
			row = rows[0]
		}
		return strings.Contains(row, has)
	})
	return row
}

func TestShopHearsOfALostPaymentOnceAlthoughItIsToldTwice(t *testing.T) {
	t.Parallel()
	dir := pgtest.DataDir(t)
	d := startDemo(t, dir)
	if res := ask(t, http.MethodPost, d.operator, "/shop/buy", "lose=1", nil); res.status != http.StatusSeeOther ||
		res.header.Get("Location") != "/shop" {
		t.Fatalf("buy: %d %s", res.status, res.body)
	}
	shopRow(t, d, 1, `<span class="status warn">not paid yet</span>`)
	row := shopRow(t, d, 1, "payment.succeeded</b>: delivered twice, taken once")
	if !strings.Contains(row, `<span class="status good">paid</span>`) {
		t.Errorf("the order is\n%s", row)
	}
	if page := ask(t, http.MethodGet, d.operator, "/shop", "", nil); page.header.Get("Refresh") != "" {
		t.Error("the page is loaded again although nothing is to come")
	}
	// A restore of Payonce's database must not take the shop's orders back.
	ours := pgtest.Connect(t, regexp.MustCompile(`export DATABASE_URL='([^']*)'`).FindStringSubmatch(d.out.String())[1])
	if n := pgtest.Value[int](t, ours, "SELECT count(*) FROM pg_class WHERE relname = 'orders'"); n != 0 {
		t.Error("the orders are in Payonce's database")
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	next := startDemo(t, dir, "OPERATOR_ADDR="+d.operator)
	next.operator = d.operator
	shopRow(t, next, 1, "delivered twice, taken once")
	ask(t, http.MethodPost, next.operator, "/shop/buy", "", nil)
	// The endpoint is the same one, with another secret.
	shopRow(t, next, 2, "payment.succeeded</b>: delivered twice, taken once")
}

func TestShopTriesAgainUntilItHasAnEndpoint(t *testing.T) {
	t.Parallel()
	dir := pgtest.DataDir(t)
	d := startDemo(t, dir)
	says := func(text string, want bool) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("the shop says %q: %v", text, want), func() bool {
			return strings.Contains(ask(t, http.MethodGet, d.operator, "/shop", "", nil).body, text) == want
		})
	}
	key := map[string]string{"Authorization": "Bearer demo-acme-key", "Content-Type": "application/json"}
	removeOne := func() {
		all := ask(t, http.MethodGet, d.public, "/webhook-endpoints", "", key).body
		ask(t, http.MethodDelete, d.public, "/webhook-endpoints/"+regexp.MustCompile(`we_\w+`).FindString(all), "", key)
	}
	const none = "no event comes"
	says(none, false)
	removeOne() // the shop's
	const unused = `{"url":"https://shop.invalid/events","eventTypes":["dispute.closed"]}`
	for range 20 { // as many as are possible
		res := ask(t, http.MethodPost, d.public, "/webhook-endpoints", unused, key)
		if res.status != http.StatusCreated {
			t.Fatalf("%d %s", res.status, res.body)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d = startDemo(t, dir)
	says(none, true)
	says("too_many_endpoints", true) // A try has failed.
	removeOne()
	says(none, false)
	ask(t, http.MethodPost, d.operator, "/shop/buy", "", nil)
	shopRow(t, d, 1, "payment.succeeded</b>: delivered twice, taken once")
}

func TestShopTakesNothingThatIsNotSigned(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.DataDir(t))
	const forged = `{"id":"evt_1","type":"payment.succeeded","version":1,"data":{"payment":{"paymentId":"pay_1"}}}`
	wait.Until(t, "the shop has its secret, and refuses a forged event", func() bool {
		return ask(t, http.MethodPost, d.operator, "/shop/events", forged, nil).status == http.StatusBadRequest
	})
	for header, want := range map[string]int{"Host": http.StatusMisdirectedRequest, "Origin": http.StatusForbidden} {
		value := "http://elsewhere.example"
		if header == "Host" {
			value = "elsewhere.example"
		}
		res := ask(t, http.MethodPost, d.operator, "/shop/buy", "", map[string]string{header: value})
		if res.status != want {
			t.Errorf("with %s of another site: %d, want %d", header, res.status, want)
		}
	}
	if page := ask(t, http.MethodGet, d.operator, "/shop", "", nil); shopRows.MatchString(page.body) {
		t.Errorf("there is an order:\n%s", page.body)
	}
}
