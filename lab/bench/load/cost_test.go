package load

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"
)

// echo answers each request of the given length with the same bytes, and allocates nothing meanwhile.
func echo(tb testing.TB, length int) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		answer := append([]byte("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n"),
			bytes.Repeat([]byte("x"), 300)...)
		for got, buffer := 0, make([]byte, 64<<10); ; {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			if got += n; got >= length {
				got -= length
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}
	}()
	tb.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	return l.Addr().String()
}

// one makes a client that is connected to an echo.
func one(tb testing.TB, p Plan) *client {
	tb.Helper()
	t, err := newTemplate(p, 0)
	if err != nil {
		tb.Fatal(err)
	}
	p.Address = echo(tb, len(t.text))
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	r := &run{ctx: ctx, plan: p, start: time.Now(), end: time.Hour}
	r.expected[201] = true
	w, err := connect(ctx, p.Address, r.deadline())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.close)
	return &client{run: r, wire: w, request: t.request()}
}

func aPayment() Plan { return Plan{Kind: New, APIKey: "demo-acme-key"} }

func aWebhook() Plan {
	return Plan{Kind: Webhook, WebhookSecret: "whsec_ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh",
		Body: `{"id":"ch_{fresh}"}`}
}

func (c *client) once() {
	at := c.run.elapsed()
	c.renew(at)
	c.count(c.ask(), at, c.run.elapsed())
}

// Not parallel: allocations are those of the whole process.
func TestRequestAllocatesNothing(t *testing.T) {
	for name, plan := range map[string]Plan{"payment": aPayment(), "webhook": aWebhook()} {
		c := one(t, plan)
		if n := testing.AllocsPerRun(200, c.once); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if c.tally.lost != 0 || c.tally.unexpected != 0 {
			t.Errorf("%s: %d lost, %d unexpected: %s", name, c.tally.lost, c.tally.unexpected, c.run.first)
		}
	}
}

// BenchmarkExchange has the server's part in it as well.
func BenchmarkExchange(b *testing.B) {
	c := one(b, aPayment())
	b.ReportAllocs()
	for b.Loop() {
		c.once()
	}
}

func BenchmarkRenew(b *testing.B) {
	for name, plan := range map[string]Plan{"payment": aPayment(), "webhook": aWebhook()} {
		b.Run(name, func(b *testing.B) {
			c := one(b, plan)
			b.ReportAllocs()
			for b.Loop() {
				c.renew(0)
			}
		})
	}
}
