//! A router that knows its own routes, so that tests can try every one of them.

use std::convert::Infallible;

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    http::Method,
    response::IntoResponse,
    routing::{MethodFilter, Route as Layered, any, on},
};
use tower::{Layer, Service};

/// A route that is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// `GET`, `POST`, or `*` for all.
    pub method: String,
    /// As axum writes it, `/ext/v1/recordings/{id}`.
    pub path: String,
}

/// A router under construction. Everything that a listener serves goes through it.
#[derive(Debug, Clone)]
pub struct Routes<S = ()> {
    router: Router<S>,
    listed: Vec<Route>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes.
    pub fn new() -> Self {
        Self { router: Router::new(), listed: Vec::new() }
    }

    /// `GET` (and `HEAD`) of a path.
    #[must_use]
    pub fn get<H: Handler<T, S>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(&Method::GET, MethodFilter::GET, path, handler)
    }

    /// `POST` to a path.
    #[must_use]
    pub fn post<H: Handler<T, S>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(&Method::POST, MethodFilter::POST, path, handler)
    }

    fn on<H: Handler<T, S>, T: 'static>(
        mut self,
        method: &Method,
        filter: MethodFilter,
        path: &str,
        handler: H,
    ) -> Self {
        self.listed.push(Route { method: method.to_string(), path: path.to_owned() });
        Self { router: self.router.route(path, on(filter, handler)), ..self }
    }

    /// Every method of a path.
    #[must_use]
    pub fn any<H: Handler<T, S>, T: 'static>(mut self, path: &str, handler: H) -> Self {
        self.listed.push(Route { method: "*".to_owned(), path: path.to_owned() });
        Self { router: self.router.route(path, any(handler)), ..self }
    }

    /// What another kind of server, such as tonic's, serves under these paths, all by `POST`.
    #[must_use]
    pub fn merge_served<'a>(mut self, router: Router<S>, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let posted = |path: &str| Route { method: "POST".to_owned(), path: path.to_owned() };
        self.listed.extend(paths.into_iter().map(posted));
        Self { router: self.router.merge(router), ..self }
    }

    /// These and others.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.listed.extend(others.listed);
        Self { router: self.router.merge(others.router), ..self }
    }

    /// Puts a layer around every route so far.
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Layered> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        Self { router: self.router.layer(layer), ..self }
    }

    /// Gives handlers their state.
    #[must_use]
    pub fn with_state(self, state: S) -> Routes {
        Routes { router: self.router.with_state(state), listed: self.listed }
    }

    /// Every route, in order.
    pub fn listed(&self) -> &[Route] {
        &self.listed
    }
}

impl Routes {
    /// What a server takes.
    pub fn into_router(self) -> Router {
        self.router
    }
}
