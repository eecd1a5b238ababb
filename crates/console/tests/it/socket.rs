//! A client of subscriptions: `graphql-transport-ws` over a socket of its own.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _, http::HeaderName},
};

use crate::api_server::{Answer, Person};

/// What never takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open socket.
pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
}

/// What a console says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    Message(Value),
    Closed(u16),
}

impl Heard {
    /// The data of an event.
    pub(crate) fn data(&self) -> &Value {
        match self {
            Self::Message(message) if message["type"] == "next" => &message["payload"]["data"],
            other => panic!("no event: {other:?}"),
        }
    }
}

impl Socket {
    /// Opens one; the status where that is refused.
    pub(crate) async fn open(url: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let address = url.strip_prefix("http://").unwrap();
        let mut request = format!("ws://{address}/gql").into_client_request().unwrap();
        for (name, value) in [("sec-websocket-protocol", "graphql-transport-ws")].iter().chain(headers) {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match timeout(PATIENCE, client_async(request, stream)).await.unwrap() {
            Ok((stream, answer)) => {
                assert_eq!(answer.headers()["sec-websocket-protocol"], "graphql-transport-ws");
                Ok(Self { stream })
            }
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    /// One of a person, begun.
    pub(crate) async fn of(person: &Person) -> Self {
        let token = format!("Bearer {}", person.token.as_ref().unwrap());
        let mut socket = Self::open(person.next_url(), &[("authorization", &token)]).await.unwrap();
        socket.begin(json!({})).await;
        socket
    }

    /// Begins the conversation.
    pub(crate) async fn begin(&mut self, payload: Value) {
        self.say(&json!({"type": "connection_init", "payload": payload})).await;
        assert_eq!(self.hear().await, Heard::Message(json!({"type": "connection_ack"})));
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.text(&message.to_string()).await;
    }

    pub(crate) async fn text(&mut self, text: &str) {
        // A console that closed it meanwhile hears nothing.
        let _ = self.stream.send(Message::text(text)).await;
    }

    pub(crate) async fn subscribe(&mut self, id: &str, document: &str, variables: Value) {
        let payload = json!({"query": document, "variables": variables});
        self.say(&json!({"type": "subscribe", "id": id, "payload": payload})).await;
    }

    /// What comes next, without what keeps the connection alive.
    pub(crate) async fn hear(&mut self) -> Heard {
        loop {
            let heard = timeout(PATIENCE, self.stream.next()).await.expect("the console says nothing");
            match heard {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(text.as_str()).unwrap();
                    if message["type"] == "ping" {
                        self.say(&json!({"type": "pong"})).await;
                        continue;
                    }
                    return Heard::Message(message);
                }
                Some(Ok(Message::Close(Some(frame)))) => return Heard::Closed(frame.code.into()),
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Heard::Closed(0),
                Some(Ok(_)) => {}
            }
        }
    }

    /// The data of the next event.
    pub(crate) async fn event(&mut self) -> Value {
        self.hear().await.data().clone()
    }
}

/// The first event of a subscription, or why there is none, as an answer of `POST /gql` would say it.
pub(crate) async fn ask(person: &Person, document: &str, variables: Value) -> Answer {
    let answer = |status, body| Answer { status, request_id: String::new(), body };
    let url = person.next_url();
    let token = person.token.as_ref().map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = token.iter().map(|token| ("authorization", token.as_str())).collect();
    let mut socket = match Socket::open(url, &headers).await {
        Ok(socket) => socket,
        Err(status) => return answer(status, Value::Null),
    };
    socket.say(&json!({"type": "connection_init"})).await;
    socket.subscribe("1", document, variables).await;
    loop {
        match socket.hear().await {
            Heard::Message(message) if message["type"] == "connection_ack" => {}
            Heard::Message(message) if message["type"] == "next" => {
                return answer(200, message["payload"].clone());
            }
            Heard::Message(message) if message["type"] == "error" => {
                return answer(200, json!({"errors": message["payload"]}));
            }
            Heard::Closed(code @ 4_400..=4_499) => return answer(code - 4_000, Value::Null),
            other => panic!("{document}: {other:?}"),
        }
    }
}
