//go:build !conformance

package main

import (
	"testing"

	"drawbridge/mcpserver"
)

func TestReleasesHaveNoFixtures(t *testing.T) {
	t.Parallel()
	if extendDoor(mcpserver.Options{}).Extend != nil {
		t.Error("a build without the tag conformance extends the door")
	}
}
