package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"payonce/internal/app"
	"payonce/internal/config"
)

// listeners are open from the start. Who calls before the demo is ready waits for its answer.
type listeners struct{ public, operator, psp net.Listener }

// listen opens all addresses, or says of all of them at once what is wrong.
func listen(ctx context.Context, settings config.API, own demoOnly) (listeners, error) {
	opened, err := app.Listen(ctx,
		app.Address{Setting: "HTTP_ADDR", Addr: settings.HTTPAddr},
		app.Address{Setting: "OPERATOR_ADDR", Addr: settings.OperatorAddr},
		app.Address{Setting: "MOCKPSP_ADDR", Addr: own.MockPSPAddr})
	if errors.Is(err, app.ErrTaken) {
		return listeners{}, fmt.Errorf("%w\nif another demo is running, stop it, or set DEMO_DATA_DIR as well", err)
	}
	if err != nil {
		return listeners{}, err
	}
	return listeners{opened[0], opened[1], opened[2]}, nil
}

func (l listeners) close() {
	for _, each := range []net.Listener{l.public, l.operator, l.psp} {
		_ = each.Close()
	}
}
