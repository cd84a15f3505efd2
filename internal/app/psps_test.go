package app

import (
	"log/slog"
	"strings"
	"testing"

	"payonce/internal/config"
	"payonce/internal/gateway"
)

// A program may be built without operations.go. What it cannot do is said when it starts, not by every payment.
func TestSettingsThatNothingHonoursAreRefused(t *testing.T) {
	t.Parallel()
	const noPSP, noTraces = "PSP is stripe", "OTEL_EXPORTER_OTLP_ENDPOINT is set"
	native, stripe := config.Shared{PSP: config.NativePSP}, config.Shared{PSP: config.StripePSP}
	traced := native
	traced.TraceEndpoint = "http://127.0.0.1:4318"
	for _, row := range []struct {
		c          config.Shared
		operations bool
		want       string
	}{{native, false, ""}, {native, true, ""}, {traced, true, ""}, {traced, false, noTraces}, {stripe, true, noPSP}} {
		wantRefusal(t, checkHonoured(row.c, gateway.PSPs{config.NativePSP: nil}, row.operations), row.want)
	}

	_, operations := any(&parts{}).(extendsParts)
	unless := func(refusal string) string {
		if operations {
			return ""
		}
		return refusal
	}
	for _, row := range []struct{ psp, secret, endpoint, want string }{
		{config.NativePSP, "", "", ""}, {config.StripePSP, "", "", noPSP},
		{config.StripePSP, "sk_test_1", "", unless(noPSP)},
		{config.NativePSP, "", traced.TraceEndpoint, unless(noTraces)},
	} {
		env := map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/none", "PSP_SECRET": "unused", "PSP": row.psp,
			"STRIPE_SECRET": row.secret, "OTEL_EXPORTER_OTLP_ENDPOINT": row.endpoint}
		c, err := config.LoadReconciler(func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReconciler(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil {
			r.Close()
		}
		wantRefusal(t, err, row.want)
	}
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
