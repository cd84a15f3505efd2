package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"payonce/internal/app"
)

// listeners are open from the start. A client that connects before the demo is ready, or while a child is away, waits
// for its answer.
type listeners struct {
	operator, psp net.Listener // served by this process
	stripe        net.Listener // likewise; nil unless the tenants are at Stripe

	// Handed down to the children, each time they start. api is where this process reaches the operator's side of the
	// API's child.
	public, api, reconciler *os.File
	apiAddr                 string
}

// listen opens all addresses, or says of all of them at once what is wrong.
func listen(ctx context.Context, set settings) (*listeners, error) {
	addresses := []app.Address{
		{Setting: "HTTP_ADDR", Addr: set.api.HTTPAddr},
		{Setting: "OPERATOR_ADDR", Addr: set.api.OperatorAddr},
		{Setting: "MOCKPSP_ADDR", Addr: set.own.MockPSPAddr},
		{Setting: "RECONCILER_ADDR", Addr: set.reconciler.Addr},
	}
	if set.stripe() {
		addresses = append(addresses, app.Address{Setting: "MOCKPSP_STRIPE_ADDR", Addr: set.own.StripeAddr})
	}
	opened, err := app.Listen(ctx, addresses...)
	if errors.Is(err, app.ErrTaken) {
		return nil, fmt.Errorf("%w\nif another demo is running, stop it, or set DEMO_DATA_DIR as well", err)
	}
	if err != nil {
		return nil, err
	}
	l := &listeners{operator: opened[1], psp: opened[2]}
	if set.stripe() {
		l.stripe = opened[4]
	}
	hidden, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		err = fmt.Errorf("listen for the API's operator side: %w", err)
	} else {
		l.apiAddr = hidden.Addr().String()
		l.api, err = handedDown(hidden)
	}
	var publicErr, reconcilerErr error
	l.public, publicErr = handedDown(opened[0])
	l.reconciler, reconcilerErr = handedDown(opened[3])
	if err := errors.Join(err, publicErr, reconcilerErr); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// spoken is the listener at which the tenants' provider is spoken to.
func (l *listeners) spoken() net.Listener {
	if l.stripe != nil {
		return l.stripe
	}
	return l.psp
}

// handedDown makes a file of a listener, for children to inherit. The address stays taken while the file is open.
func handedDown(l net.Listener) (*os.File, error) {
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("hand %s down: not a TCP listener", l.Addr())
	}
	file, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("hand %s down: %w", l.Addr(), err)
	}
	return file, nil
}

func (l *listeners) close() {
	_ = l.operator.Close()
	_ = l.psp.Close()
	if l.stripe != nil {
		_ = l.stripe.Close()
	}
	for _, file := range []*os.File{l.public, l.api, l.reconciler} {
		_ = file.Close() // also of one that was not opened
	}
}
