package load

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestAnswersAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, row := range map[string]struct {
		text   string
		status int
		quote  string
		closes bool
	}{
		"with a length":   {"HTTP/1.1 201 Created\r\ncontent-LENGTH:  5\r\nDate: x\r\n\r\nhello", 201, "hello", false},
		"without a body":  {"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", 204, "", false},
		"longer than all": {"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + long, 200, long[:maxQuoted], false},
		"in chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n", 200, "hello", false},
		"chunks go before": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n0\r\n\r\n",
			200, "", false},
		"the last one": {"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 503, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(row.text+row.text)), 64)
			for range 2 { // the second is found where the first has ended
				h, err := readHead(r)
				if err != nil {
					t.Fatal(err)
				}
				var quote strings.Builder
				if err := h.readBody(r, &quote); err != nil {
					t.Fatal(err)
				}
				if h.status != row.status || quote.String() != row.quote || h.closes != row.closes {
					t.Fatalf("status %d, closes %t, body %q", h.status, h.closes, quote.String())
				}
			}
			if _, err := readHead(r); !errors.Is(err, io.EOF) {
				t.Fatalf("after the last answer: %v", err)
			}
		})
	}
}

func TestAnswerMayEndWithItsConnection(t *testing.T) {
	t.Parallel()
	r := bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\nhello"))
	h, err := readHead(r)
	var quote strings.Builder
	if err != nil || h.readBody(r, &quote) != nil || !h.closes || quote.String() != "hello" {
		t.Fatalf("%+v, %q, %v", h, quote.String(), err)
	}
}

func TestAnswerThatIsCutOrNoneIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 2x1 OK\r\n\r\n", "HTTP/1.1 999 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "HTTP/1.1 200 OK\r\n" +
			strings.Repeat("A: b\r\n", 200) + "\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(text))
		h, err := readHead(r)
		if err == nil {
			err = h.readBody(r, nil)
		}
		if err == nil {
			t.Errorf("%q is taken for an answer", text)
		}
	}
}

func TestHistogramIsOffByLessThanOnePercent(t *testing.T) {
	t.Parallel()
	for d := time.Duration(1); d < 2*time.Minute; d += d/3 + 1 {
		var h histogram
		h.record(d)
		h.record(time.Hour) // so that the maximum does not help
		if got := h.quantile(0.5) * 1000; got < 0.99*float64(d) || got > 1.01*float64(d) {
			t.Fatalf("%d ns is counted as %.0f", d, got)
		}
	}
}

func TestQuantilesAreThoseOfAllClients(t *testing.T) {
	t.Parallel()
	var a, b histogram
	for i := range 1000 {
		d := time.Duration(i+1) * time.Microsecond
		if i%3 == 0 {
			a.record(d)
		} else {
			b.record(d)
		}
	}
	a.add(&b)
	for q, want := range map[float64]float64{0.5: 500, 0.9: 900, 0.999: 999, 1: 1000} {
		if got := a.quantile(q); got < 0.99*want || got > 1.01*want {
			t.Errorf("%v is at %v, want %v", q, got, want)
		}
	}
	if (&histogram{}).quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
}
