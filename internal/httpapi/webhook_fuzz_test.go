package httpapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
)

// Whatever is sent without the secret is refused, and in few words. It never comes to the store: there is none here, so
// that a message that is taken for genuine ends in a panic.
func FuzzWebhookRoute(f *testing.F) {
	now := time.Unix(1614265330, 0)
	// The secret is not that of any signature in the corpus.
	psp, err := native.New("http://psp.test", "secret", gateway.DefaultLimits(),
		[]string{"whsec_Zm9yLW5vYm9keS1idXQtdGhpcy1mdXp6LXRhcmdldA=="}, func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	receiver := webhooks.NewReceiver(psp, nil)
	api := &API{config: Config{
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:     slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		RequestID: func() string { return "fuzz" },
	}}
	handler := api.identify(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.takeWebhook(w, r, receiver)
	}))
	f.Add("msg_1", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "application/json",
		[]byte(`{"test": 2432232314}`))
	f.Add("a.b", "+1", "v1,", "text/plain", []byte{})
	f.Fuzz(func(t *testing.T, id, timestamp, signature, contentType string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/psp", bytes.NewReader(body))
		for name, value := range map[string]string{
			"Webhook-Id": id, "Webhook-Timestamp": timestamp, "Webhook-Signature": signature,
			"Content-Type": contentType,
		} {
			r.Header[name] = []string{value}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if !slices.Contains([]int{401, 413, 415}, w.Code) ||
			w.Header().Get("Content-Type") != "application/problem+json" || w.Body.Len() > 2048 {
			t.Fatalf("answered %d, %s", w.Code, w.Body)
		}
		if len(body) > maxWebhook && w.Code == 401 {
			t.Fatalf("%d bytes are looked at", len(body))
		}
		if len(signature) > 20 && bytes.Contains(w.Body.Bytes(), []byte(signature)) {
			t.Fatal("the signature is repeated")
		}
	})
}
