package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/internal/telemetry"
)

// The first arguments that make this program a child of the demo. They are not for people.
const (
	childAPI        = "child-api"
	childReconciler = "child-reconciler"
)

// The files that a child inherits, from the first number after those of stdin, stdout and stderr.
const firstInherited = 3

// pspPageSetting tells the API's child where a browser finds the page of the mock PSP. It is no setting for people: see
// config.API.PSPPage.
const pspPageSetting = "DEMO_PSP_PAGE"

// demoPageSetting tells the API's child the path of the page with the buttons, for config.Shared.DemoPage.
const demoPageSetting = "DEMO_PAGE"

// noticeSetting tells the children what their pages say at the top, for config.Shared.Notice.
const noticeSetting = "DEMO_NOTICE"

// announced is what a child writes to its stdout when it serves.
const announced = "ready\n"

// childWork is the work of a child, or nil if the arguments do not make this program one.
func childWork(args []string) func(context.Context, func(string) string, io.Writer, io.Writer) error {
	if len(args) != 1 {
		return nil
	}
	return map[string]func(context.Context, func(string) string, io.Writer, io.Writer) error{
		childAPI: runAPI, childReconciler: runReconciler,
	}[args[0]]
}

// endWithSupervisor ends this process at once when the demo is gone. The demo holds the other end of stdin and writes
// nothing, so a read returns when the demo has ended, also after a kill -9, on every system.
func endWithSupervisor(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(1)
}

func runAPI(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	settings, err := config.Load(getenv)
	if err != nil {
		return err
	}
	settings.PSPPage, settings.DemoPage = getenv(pspPageSetting), getenv(demoPageSetting)
	settings.Notice = getenv(noticeSetting)
	log, err := childLog(settings.Shared, stderr)
	if err != nil {
		return err
	}
	public, err := inherited(firstInherited)
	if err != nil {
		return err
	}
	operator, err := inherited(firstInherited + 1)
	if err != nil {
		return err
	}
	api, err := app.NewAPI(ctx, settings, log)
	if err != nil {
		return err
	}
	return api.Serve(ctx, public, operator, func() { fmt.Fprint(stdout, announced) })
}

func runReconciler(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	settings, err := config.LoadReconciler(getenv)
	if err != nil {
		return err
	}
	settings.Notice = getenv(noticeSetting)
	log, err := childLog(settings.Shared, stderr)
	if err != nil {
		return err
	}
	operator, err := inherited(firstInherited)
	if err != nil {
		return err
	}
	reconciler, err := app.NewReconciler(ctx, settings, log)
	if err != nil {
		return err
	}
	return reconciler.Serve(ctx, operator, func() { fmt.Fprint(stdout, announced) })
}

func childLog(c config.Shared, stderr io.Writer) (*slog.Logger, error) {
	level, err := c.Level()
	if err != nil {
		return nil, err
	}
	return telemetry.NewTextLogger(stderr, level), nil
}

// inherited is the listener that the demo has opened and handed down.
func inherited(number uintptr) (net.Listener, error) {
	file := os.NewFile(number, "listener")
	defer func() { _ = file.Close() }()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, cli.Usagef("only the demo starts this: it inherits its listeners: %w", err)
	}
	return l, nil
}
