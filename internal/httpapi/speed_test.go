package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/telemetry"
)

const aBody = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW","paymentMethod":"pm_ok",` +
	`"description":"an order of two","metadata":{"order":"42"}}`

// BenchmarkBody is from the bytes on the wire to a request that is valid.
func BenchmarkBody(b *testing.B) {
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.Header.Set("Content-Type", "application/json")
	raw := strings.NewReader(aBody)
	r.Body = io.NopCloser(raw)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		raw.Reset(aBody)
		var body paymentRequest
		if bad := readBody(w, r, &body); bad != nil {
			b.Fatal(bad)
		}
		if _, bad := body.toDomain(); bad != nil {
			b.Fatal(bad)
		}
	}
}

func BenchmarkKeyHeader(b *testing.B) {
	for name, value := range map[string]string{
		"bare": "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d", "quoted": `"0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d"`,
	} {
		b.Run(name, func(b *testing.B) {
			h := http.Header{keyHeader: {value}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := keyOf(h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// blank is a response that is written into the void.
type blank struct{ header http.Header }

func (b *blank) Header() http.Header         { return b.header }
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }
func (b *blank) WriteHeader(int)             {}

// BenchmarkMiddleware is what every request goes through before and after its own handler: id, log line, metric,
// recovery.
func BenchmarkMiddleware(b *testing.B) {
	a := New(Config{
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Log: telemetry.NewLogger(io.Discard, slog.LevelInfo),
		PublicURL: "http://payonce.test", RequestID: func() string { return "req_ABCDEFGHIJKLMNOPQRSTUVWXYZ" },
		Now: time.Now,
	})
	r := httptest.NewRequest(http.MethodGet, "/openapi.yaml", nil)
	r.Header.Set("If-None-Match", "*")
	w := &blank{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		a.ServeHTTP(w, r)
	}
}

// BenchmarkRefusal is a request that is turned away with a problem document, by everybody who has a part in it.
func BenchmarkRefusal(b *testing.B) {
	a := New(Config{
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Log: telemetry.NewLogger(io.Discard, slog.LevelInfo),
		PublicURL: "http://payonce.test", RequestID: func() string { return "req_ABCDEFGHIJKLMNOPQRSTUVWXYZ" },
		Now: time.Now,
	})
	r := httptest.NewRequest(http.MethodPost, "/payments", nil) // without an API key
	w := &blank{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		a.ServeHTTP(w, r)
	}
}

func BenchmarkFinalAnswer(b *testing.B) {
	a := &API{}
	w := &blank{header: http.Header{}}
	f := payments.Final{
		Response: idempotency.Response{Status: http.StatusCreated, ContentType: jsonType, Location: "/payments/pay_1",
			Body: []byte(aBody)},
		Expires: time.Now(),
	}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		a.spellFinal(w, f)
	}
}
