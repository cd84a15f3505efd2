package history

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestHistoryIsWrittenForPeople(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := New(&file)
	asked := Operation{
		Client: 7, API: "api-1", Tenant: "acme", Route: PaymentsRoute, Path: "/payments", Key: theKey, Prefer: "wait=1",
		Intent: "A", Body: []byte(`{"a": 1}`),
	}
	header := span{1, 2}.first(1).Header.Clone()
	header.Set("X-Powered-By", "not kept")
	r.Begin(asked).End(http.StatusCreated, header, []byte("{\"b\":\"\u00fc\"}\n"))
	r.Begin(asked).End(http.StatusOK, nil, []byte{0xff, 0})
	r.Begin(asked).Fail("connection reset")
	r.Begin(asked)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	written := strings.Split(file.String(), "\n")
	for i, want := range []string{`"body":{"text":"{\"a\": 1}"}`, `"answer":{"base64":"/wA="}`,
		`"failure":"connection reset"`, `"intent":"A"`} {
		if !strings.Contains(written[i], want) {
			t.Errorf("line %d has no %s: %s", i+1, want, written[i])
		}
	}
	got := r.Operations()
	if len(got) != 4 || got[0].Header.Get("X-Powered-By") != "" || !got[1].Answered() || got[2].Answered() ||
		got[3].Answered() {
		t.Errorf("history: %+v", got)
	}
	if got[2].Failed <= got[2].Call || got[3].Failed != 0 || got[3].Call < got[2].Failed {
		t.Errorf("times of failures: %v", got)
	}
	if got[0].Call < 0 || got[0].Return <= got[0].Call || got[1].Call < got[0].Return {
		t.Errorf("times: %v", got)
	}
}

func TestOperationEndsOnce(t *testing.T) {
	t.Parallel()
	r := New(nil)
	p := r.Begin(Operation{})
	p.End(http.StatusCreated, nil, nil)
	p.Fail("the connection was closed afterwards")
	if o := r.Operations()[0]; o.Status != http.StatusCreated || o.Failure != "" {
		t.Errorf("%+v", o)
	}
}

func TestManyClientsRecordAtOnce(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := New(&file)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 50 {
				r.Begin(Operation{Client: i}).End(http.StatusOK, nil, nil)
			}
		})
	}
	all.Wait()
	if err := r.Close(); err != nil || bytes.Count(file.Bytes(), []byte("\n")) != 1000 {
		t.Errorf("%d lines: %v", bytes.Count(file.Bytes(), []byte("\n")), err)
	}
	operations := r.Operations()
	for i := 1; i < len(operations); i++ {
		if operations[i].Call < operations[i-1].Call {
			t.Fatal("not in the order of the calls")
		}
	}
}

func TestAnswerCutShortIsNoAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		if _, err := io.WriteString(w, "0123456789"[:r.ContentLength]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	r := New(nil)
	for _, body := range []string{"0123456789", "012"} {
		p := r.Begin(Operation{})
		response, err := server.Client().Post(server.URL, "text/plain", strings.NewReader(body))
		_, _ = p.Response(response, err)
	}
	_, _ = r.Begin(Operation{}).Response(nil, errors.New("no route to host"))
	o := r.Operations()
	if !o[0].Answered() || string(o[0].Answer) != "0123456789" || o[1].Answered() || o[1].Failure == "" ||
		o[2].Failure != "no route to host" {
		t.Errorf("%+v", o)
	}
}

func TestHistoryThatCouldNotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	if err := reader.CloseWithError(errors.New("disk full")); err != nil {
		t.Fatal(err)
	}
	r := New(writer)
	r.Begin(Operation{}).Fail("")
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error: %v", err)
	}
}
