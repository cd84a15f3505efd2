// Command consumer receives Payonce's events and ships parcels, for lesson 17. It is a merchant's system that can be
// killed, and has a database of its own, "shop", on the server that DATABASE_URL names. It ends when it has taken one
// event:
//
//	consumer [-take client] [-die] [-refuse payment.succeeded]
//
// Three ways to take an event can be compared. "client" is package client: each id once, the greatest version of each
// payment, and one parcel for each payment. "ids" takes each id once, and believes the event that came last. "all"
// takes whatever comes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"payonce/client"
)

// largest is more than any event has.
const largest = 1 << 20

// consumer is one process of the merchant's.
type consumer struct {
	shop   shop
	secret string
	die    bool
	refuse string
	out    io.Writer

	mu    sync.Mutex
	told  string        // the payment of the event that was taken; "": none yet
	ended chan struct{} // closed when an event was taken
}

func main() {
	c := consumer{out: os.Stdout, secret: os.Getenv("SECRET"), ended: make(chan struct{})}
	flag.Func("take", "client, ids or all", func(way string) error {
		if !slices.Contains([]string{"client", "ids", "all"}, way) {
			return errors.New("there is no such way")
		}
		c.shop.way = way
		return nil
	})
	flag.BoolVar(&c.die, "die", false, "be killed after the commit, and before the answer")
	flag.StringVar(&c.refuse, "refuse", "", "a type of event that is answered 500, as when a table is locked")
	flag.Parse()
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func (c *consumer) run(ctx context.Context) error {
	if c.secret == "" {
		return errors.New("SECRET is not set: make the endpoint first")
	}
	err := c.shop.open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	address := "localhost:8086"
	if given := os.Getenv("CONSUMER_ADDR"); given != "" {
		address = given
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.MaxBytesHandler(http.HandlerFunc(c.receive), largest),
		ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case <-c.ended:
	case err := <-failed:
		return err
	}
	if err := server.Shutdown(ctx); err != nil { // It waits until the last answer is sent.
		return err
	}
	return c.shop.say(ctx, c.out, c.told)
}

// receive answers 204 when the event is taken, and not before.
func (c *consumer) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	event, err := client.VerifyEvent(body, r.Header, time.Now(), c.secret)
	if err != nil {
		fmt.Fprintln(c.out, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if event.Type == c.refuse || c.told != "" {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	did, err := c.shop.take(r.Context(), event)
	if err != nil {
		fmt.Fprintln(c.out, err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(c.out, "%s %s: %s\n", event.ID, event.Type, did)
	if c.die {
		c.kill()
	}
	w.WriteHeader(http.StatusNoContent)
	c.told = event.PaymentID
	close(c.ended)
}

// kill ends the process as kill -9 does. Nothing is cleaned up: no deferred call runs.
func (c *consumer) kill() {
	fmt.Fprintln(c.out, "killed")
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}
