package mockpsp

import (
	"fmt"
	"net/http"
)

const (
	faultsMember    = "rates"
	disordersMember = "webhooks"
)

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	all := map[string]map[string]float64{
		faultsMember: s.rates.named(), disordersMember: s.webhooks.disorders.named(),
	}
	if s.dialectRates != nil {
		all[s.dialectRates.member] = s.dialectRates.named()
	}
	jsonReply(http.StatusOK, all).deliver(w)
}

// putFaults takes any Content-Type: people type this with curl -d. A member that is there replaces all of its rates,
// one that is left out leaves them as they were. The rates of another dialect are part of "rates" in this: no faults
// means none of either.
func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err == nil {
		err = s.parseFaults(body)
	}
	if err != nil {
		s.refuse(err).deliver(w)
		return
	}
	s.getFaults(w, r)
}

func (s *Server) parseFaults(body []byte) error {
	var in map[string]map[string]*float64
	if err := parseStrictly(body, &in); err != nil {
		return err
	}
	for name, member := range in {
		if name != faultsMember && name != disordersMember && !s.dialectRates.is(name) {
			return invalid(fmt.Sprintf("the body has an unknown member at %q", "/"+name))
		}
		if member == nil {
			return invalid(name + " must be an object of names and their rates")
		}
	}
	if len(in) == 0 {
		return invalid("rates or webhooks is required: an object of names and their rates")
	}
	return s.setFaults(in)
}

// setFaults changes all members that are there or, when it returns an error, none.
func (s *Server) setFaults(in map[string]map[string]*float64) error {
	faults, disorders := in[faultsMember], in[disordersMember]
	faultRates, err := checkFaultRates(faults)
	if err != nil {
		return err
	}
	disorderRates, err := checkDisorderRates(disorders)
	if err != nil {
		return err
	}
	if err := s.dialectRates.setNamed(in, faults != nil); err != nil {
		return err
	}
	if faults != nil {
		s.rates.set(faultRates)
	}
	if disorders != nil {
		s.webhooks.disorders.set(disorderRates)
	}
	return nil
}
