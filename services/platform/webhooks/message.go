package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/internal/bus/eventbus"
)

// typePrefix begins the type of each event in a message. CloudEvents requires a prefix that
// belongs to the producer.
const typePrefix = "dev.slipway."

// A cloudEvent is a message in the structured mode of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

// message returns a delivery with the message about what happened, without a webhook.
func (s *Service) message(id, kind, subject string, at time.Time, data []byte) (delivery, error) {
	body, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: id, Source: s.deps.Pages, Type: typePrefix + kind, Subject: subject, Time: at.UTC().Format(time.RFC3339Nano),
		DataContentType: "application/json", Data: data,
	})
	if err != nil {
		return delivery{}, fmt.Errorf("encoding the event %s: %w", id, err)
	}
	return delivery{eventID: id, kind: kind, subject: subject, body: string(body), created: at}, nil
}

// busMessage returns a delivery for an event of the bus.
func (s *Service) busMessage(e *eventsv1.Event) (delivery, error) {
	var m proto.Message
	switch data := proto.CloneOf(e).GetData().(type) {
	case *eventsv1.Event_Build:
		view := "/view/builds/"
		if strings.HasPrefix(e.GetType(), "mirror.") {
			view = "/view/mirrors/"
		}
		data.Build.DetailsUri = s.deps.Pages + view + data.Build.GetBuildId()
		m = data.Build
	case *eventsv1.Event_Container:
		data.Container.DetailsUri = s.deps.Pages + "/view/builds/" + data.Container.GetBuildId()
		m = data.Container
	default:
		return delivery{}, fmt.Errorf("the event %s has unknown data", e.GetId())
	}
	raw, err := protojson.MarshalOptions{EmitUnpopulated: false}.Marshal(m)
	if err != nil {
		return delivery{}, fmt.Errorf("encoding the event %s: %w", e.GetId(), err)
	}
	var data bytes.Buffer
	if err := json.Compact(&data, raw); err != nil { // protojson adds spaces at random
		return delivery{}, err
	}
	return s.message(e.GetId(), e.GetType(), eventbus.Subject(e), e.GetTime().AsTime(), data.Bytes())
}
