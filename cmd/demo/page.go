package main

import (
	"crypto/rand"
	"log/slog"
	"net"
	"time"

	"payonce/demo/controls"
	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/demo/windows"
	"payonce/internal/config"
)

// demoPage is the path of the page with the buttons, or "" if there is none.
func demoPage(at *listeners) string {
	if addr, ok := at.operator.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return "/demo/"
	}
	return ""
}

// newControls makes the page with the buttons, and the link that opens it. There is none where others than this machine
// reach the operator's listener: everybody who reaches the page may press its buttons.
func newControls(
	set settings, at *listeners, d *database, stage *windows.Stage, read *rows, ours *children, log *slog.Logger,
) (page *controls.Controls, link string) {
	if demoPage(at) == "" {
		return nil, ""
	}
	addr := at.operator.Addr()
	_, port, _ := net.SplitHostPort(addr.String())
	c := controls.Config{
		Port: port, PublicURL: set.api.LocalURL(), Tenant: tenant, APIKey: "demo-acme-key",
		Account: accountOf(tenant, set.provider()), Tokens: mockpsp.Tokens(),
		ChargeKeys: func(key string) []string { return []string{key} },
		PSPURL:     set.api.PSPURL, PSPPage: config.LocalURL(at.psp.Addr().String()),
		OperatorURL: "http://" + at.apiAddr, OperatorKey: "demo-operator-key", StartToken: rand.Text(),
		Notice:     set.notice(),
		PSPTimeout: set.api.PSPTotal, Row: read.read,
		API:        controls.Control{State: ours.api.State, Kill: ours.api.kill},
		Reconciler: controls.Control{State: ours.reconciler.State, Kill: ours.reconciler.kill},
		Windows:    stage, Log: log, Now: time.Now,
	}
	if set.stripe() {
		c.Provider, c.Tokens = "Stripe", stripe.Tokens()
		c.ChargeKeys = func(key string) []string { return []string{key + ".confirm.1", key + ".confirm.2"} }
	}
	if d.server != nil {
		c.Database = controls.Control{State: d.State, Kill: d.crash}
	}
	page = controls.New(c)
	ours.api.changed, ours.reconciler.changed, d.changed = page.Changed, page.Changed, page.Changed
	if stage != nil {
		watchWindows(stage, ours, page)
	}
	return page, "http://" + addr.String() + "/demo/start?token=" + c.StartToken
}
