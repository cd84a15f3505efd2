package app_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"payonce/internal/app"
)

// People read the pages, and operators log in, while the database is away.
func TestPagesAreServedWithoutADatabase(t *testing.T) {
	t.Parallel()
	a, err := app.NewAPI(t.Context(), settings(t, map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/none"}),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for path, side := range map[string]http.Handler{
		"/docs": a.Public, "/problems": a.Public, "/openapi.yaml": a.Operator,
	} {
		rec := httptest.NewRecorder()
		if side.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil)); rec.Code != http.StatusOK {
			t.Errorf("%s is %d", path, rec.Code)
		}
	}
}
