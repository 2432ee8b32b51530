package transfer

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
)

// A move describes the move of built images from the embedded store to build_repository. A nil
// move changes nothing.
type move struct {
	fromHost, fromRepository string
	toHost, toRepository     string
}

// mover returns the move that the settings of the target require; nil if images stay in the
// embedded store.
func mover(cfg config.Config) *move {
	if cfg.BuildRepository == "" {
		return nil
	}
	host, repository, _ := strings.Cut(cfg.BuildRepository, "/")
	return &move{cfg.StoreAddr, app.StoreRepository, host, repository}
}

// repository returns the new name of a repository in the embedded store.
func (m *move) repository(old string) string {
	return m.toRepository + strings.TrimPrefix(old, m.fromRepository)
}

// isMoved reports whether a repository is the embedded store's, or below it.
func (m *move) isMoved(host, repository string) bool {
	return host == m.fromHost && (repository == m.fromRepository || strings.HasPrefix(repository, m.fromRepository+"/"))
}

// rewrite is the sqldb.Rewrite of a move. It changes every column that can name a built image.
func (m *move) rewrite(table, column string, value any) (any, error) {
	if m == nil {
		return value, nil
	}
	var message proto.Message
	switch table + "." + column {
	case "build_builds.target", "build_caches.repository":
		text, _ := value.(string)
		return m.text(text), nil
	case "container_requests.plan":
		message = &containerv1.Plan{}
	case "container_requests.request":
		message = &containerv1.ContainerRequest{}
	case "build_builds.request":
		message = &buildv1.SubmitBuildRequest{}
	default:
		return value, nil
	}
	raw, _ := value.([]byte)
	if err := proto.Unmarshal(raw, message); err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", column, table, err)
	}
	if !m.message(message.ProtoReflect()) {
		return value, nil
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(message)
}

// text returns a reference or repository with its new host and repository, and any other
// string unchanged.
func (m *move) text(text string) string {
	host, rest, ok := strings.Cut(text, "/")
	end := strings.IndexAny(rest, ":@")
	if end < 0 {
		end = len(rest)
	}
	if !ok || !m.isMoved(host, rest[:end]) {
		return text
	}
	return m.toHost + "/" + m.repository(rest[:end]) + rest[end:]
}

// message changes the images in a message and in every message inside it. It reports whether
// it changed anything.
func (m *move) message(msg protoreflect.Message) (changed bool) {
	fields := msg.Descriptor().Fields()
	registry, repository := fields.ByName("registry"), fields.ByName("repository")
	if isText(registry) && isText(repository) && m.isMoved(msg.Get(registry).String(), msg.Get(repository).String()) {
		msg.Set(repository, protoreflect.ValueOfString(m.repository(msg.Get(repository).String())))
		msg.Set(registry, protoreflect.ValueOfString(m.toHost))
		changed = true
	}
	msg.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				changed = m.message(v.List().Get(i).Message()) || changed
			}
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			for i := range v.List().Len() {
				old := v.List().Get(i).String()
				if moved := m.text(old); moved != old {
					v.List().Set(i, protoreflect.ValueOfString(moved))
					changed = true
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			changed = m.message(v.Message()) || changed
		case f.Kind() == protoreflect.StringKind:
			if moved := m.text(v.String()); moved != v.String() {
				msg.Set(f, protoreflect.ValueOfString(moved))
				changed = true
			}
		}
		return true
	})
	return changed
}

// isText reports whether a field exists and holds one string.
func isText(f protoreflect.FieldDescriptor) bool {
	return f != nil && f.Kind() == protoreflect.StringKind && !f.IsList()
}
