package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func BenchmarkHTTPRequest(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		m.HTTPRequest("/payments", "201", 3*time.Millisecond)
	}
}

func BenchmarkReserved(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		m.Reserved("created")
	}
}

func BenchmarkPSPRequest(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	for b.Loop() {
		m.PSPRequest("succeeded", 3*time.Millisecond)
	}
}
