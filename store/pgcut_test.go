package store_test

import (
	"errors"

	"drawbridge/bridge"
)

func deepIs1(tx *bridge.Scene) error {
	a, err := tx.Agent("agt_1")
	if err == nil && a.Depth != 1 {
		err = errors.New("other steps than the last were recorded")
	}
	return err
}
