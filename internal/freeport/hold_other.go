//go:build !linux

package freeport

func hold() (int, func() error, error) { return freeNow() }

func keep(int) (func() error, error) { return func() error { return nil }, nil }
