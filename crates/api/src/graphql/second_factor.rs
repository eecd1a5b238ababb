//! A second factor for those who sign in with a password.

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_app::second_factor::BegunFactor;
use plural_core::ids::UserId;
use secrecy::{ExposeSecret as _, SecretString};

use super::{
    error::{IntoGraphql, Nullable, id, nullable},
    request::request,
};

/// What an authenticator app is given; told once.
#[derive(SimpleObject)]
#[graphql(name = "SecondFactorSecret")]
struct BegunSecondFactor {
    /// `otpauth://…`, for a link or a picture.
    address: String,
    /// The same secret, to be typed into the app.
    secret: String,
}

/// Changing one's second factor.
#[derive(Default)]
pub(crate) struct SecondFactorMutation;

/// Changing one's second factor.
#[Object]
impl SecondFactorMutation {
    /// Makes a secret for your authenticator app. Nothing is asked for before you confirm it with a code.
    async fn begin_second_factor(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<BegunSecondFactor> {
        nullable(async {
            let request = request(ctx);
            let password = current_password.map(SecretString::from);
            let BegunFactor { address, secret } =
                request.app.second_factor_begin(&request.op, password).await.into_graphql(ctx)?;
            let (address, secret) = (address.expose_secret().to_owned(), secret.expose_secret().to_owned());
            Ok(Some(BegunSecondFactor { address, secret }))
        })
        .await
    }

    /// Confirms the secret with a code that the app shows: from now on one is asked for with your password. The answer are codes for
    /// the day that the app is lost, each good once.
    async fn confirm_second_factor(&self, ctx: &Context<'_>, code: String) -> Nullable<Vec<String>> {
        nullable(async {
            let request = request(ctx);
            let codes = request.app.second_factor_confirm(&request.op, &code).await.into_graphql(ctx)?;
            Ok(Some(codes.iter().map(|code| code.expose_secret().to_owned()).collect()))
        })
        .await
    }

    /// Ends your second factor, or as an administrator that of a user who has lost the app and the codes; whether there was one.
    async fn end_second_factor(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The user; yourself when absent.")] user_id: Option<ID>,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
        #[graphql(desc = "Where you have a second factor yourself: a code of the app, or a recovery code.")]
        code: Option<String>,
    ) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            let password = current_password.map(SecretString::from);
            let ended = match user_id {
                Some(user) => {
                    let user: UserId = id(&user).into_graphql(ctx)?;
                    request.app.second_factor_reset(&request.op, user, password, code.as_deref()).await
                }
                None => request.app.second_factor_end(&request.op, password, code.as_deref()).await,
            };
            Ok(Some(ended.into_graphql(ctx)?))
        })
        .await
    }
}
