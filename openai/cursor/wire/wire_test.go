package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"reflect"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/pluginpb"

	"drawbridge/openai/cursor/wire"
)

var update = flag.Bool("update", false, "make agent.pb.go from agent.proto")

// TestSchema compares the code with the schema that it is made from.
func TestSchema(t *testing.T) {
	t.Parallel()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{}), SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(t.Context(), "agent.proto")
	if err != nil {
		t.Fatal(err)
	}
	want := protodesc.ToFileDescriptorProto(files[0])
	if *update {
		generate(t, want)
	}
	want.SourceCodeInfo = nil
	if got := protodesc.ToFileDescriptorProto(wire.File_agent_proto); !proto.Equal(got, want) && !*update {
		t.Error("agent.pb.go was not made from agent.proto as it is; run go test ./openai/cursor/wire -run TestSchema -update")
	}
}

// generate writes agent.pb.go with the generator of the protobuf module.
func generate(t *testing.T, file *descriptorpb.FileDescriptorProto) {
	t.Helper()
	ask, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{FileToGenerate: []string{"agent.proto"}, Parameter: proto.String("paths=source_relative"),
		ProtoFile: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto), file}})
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", "google.golang.org/protobuf/cmd/protoc-gen-go")
	run.Stdin, run.Stderr = bytes.NewReader(ask), os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil || answer.GetError() != "" || len(answer.GetFile()) != 1 {
		t.Fatal(err, answer.GetError(), len(answer.GetFile()))
	}
	if err := os.WriteFile("agent.pb.go", []byte(answer.GetFile()[0].GetContent()), 0o644); err != nil {
		t.Fatal(err)
	}
}

type vectors struct {
	Messages []struct {
		ID, Type, Kind, Hex string
		JSON                map[string]any
	}
}

// TestVectors reads bytes of the vendor's own client and of servers that it accepted. What the schema knows has to be what they mean, and what
// it does not know has to survive.
func TestVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func() proto.Message{
		"agent.v1.AgentClientMessage":   func() proto.Message { return &wire.AgentClientMessage{} },
		"agent.v1.AgentServerMessage":   func() proto.Message { return &wire.AgentServerMessage{} },
		"aiserver.v1.BidiAppendRequest": func() proto.Message { return &wire.BidiAppendRequest{} },
		"aiserver.v1.BidiRequestId":     func() proto.Message { return &wire.BidiRequestId{} },
		"aiserver.v1.ErrorDetails":      func() proto.Message { return &wire.ErrorDetails{} },
	}
	read := 0
	for _, m := range v.Messages {
		if kinds[m.Type] == nil {
			continue
		}
		read++
		was, err := hex.DecodeString(m.Hex)
		if err != nil {
			t.Fatal(m.ID, err)
		}
		msg := kinds[m.Type]()
		if err := proto.Unmarshal(was, msg); err != nil {
			t.Errorf("%s %s: %v", m.ID, m.Kind, err)
			continue
		}
		again, err := proto.Marshal(msg)
		if err != nil || len(again) != len(was) {
			t.Errorf("%s %s: %d bytes came back of %d, %v", m.ID, m.Kind, len(again), len(was), err)
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
		if err != nil {
			t.Fatal(m.ID, err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(m.ID, err)
		}
		if at := differ(got, m.JSON); at != "" {
			t.Errorf("%s %s: %s differs: %s", m.ID, m.Kind, at, text)
		}
	}
	if read < 100 {
		t.Errorf("only %d vectors were read", read)
	}
}

// differ returns where what the schema reads is not what the vector says. Fields that the schema lacks do not count, nor those that it keeps as bytes or numbers.
func differ(got, want any) string {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return ""
		}
		for key, value := range g {
			there, ok := w[key]
			if !ok {
				return key
			}
			if at := differ(value, there); at != "" {
				return key + "." + at
			}
		}
		return ""
	case []any:
		w, ok := want.([]any)
		if !ok || len(w) != len(g) {
			return "its length"
		}
		for i := range g {
			if at := differ(g[i], w[i]); at != "" {
				return at
			}
		}
		return ""
	case string:
		if _, kept := want.(map[string]any); kept {
			return "" // bytes here, a message there
		}
	case float64:
		if _, name := want.(string); name {
			return "" // a number here, the name of a value there
		}
	}
	if !reflect.DeepEqual(got, want) {
		return "the value"
	}
	return ""
}
