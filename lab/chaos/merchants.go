package main

import (
	"context"

	"payonce/lab/chaos/plan"
	"payonce/lab/merchant"
	"payonce/lab/world"
)

// openMerchants has a big tenant and a small one want events. The others' payments are written without any.
func (r *trial) openMerchants(ctx context.Context) (err error) {
	if r.settings.Target == naive {
		return nil
	}
	r.merchants, err = merchant.Open(ctx, merchant.Options{
		Plan: r.settings.plan(), APIs: r.stage.addresses(func(p *world.Process) string { return p.Address }),
		Keys: r.stage.keys, Tally: r.stage.tally,
	}, "acme", plan.SmallTenants()[0])
	return err
}

// calmMerchants has their endpoints work from here on, but for some that slip once.
func (r *trial) calmMerchants(ctx context.Context) {
	if err := r.merchants.Calm(ctx); err != nil {
		r.complain("calm", err.Error())
	}
}

// heard is what the merchants have heard, once nothing moves.
func (r *trial) heard(ctx context.Context) ([]merchant.Heard, error) {
	if err := r.merchants.ReadToEnd(ctx); err != nil {
		return nil, err
	}
	return r.merchants.Heard(), nil
}

func (r *trial) closeMerchants() {
	if r.merchants != nil {
		r.merchants.Close()
	}
}
